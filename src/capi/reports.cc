#include <string_view>

#include "capi/border.h"
#include "compute/backend.h"
#include "engine/doctor.h"
#include "engine/report.h"

using namespace colibri;

namespace {

Json kernel_reports_json(const std::vector<compute::KernelReport>& reports) {
  Json list{Json::Array{}};
  for (const compute::KernelReport& report : reports) {
    Json entry;
    entry.set("isa", report.isa);
    entry.set("operation", report.operation);
    entry.set("encoding", report.encoding);
    entry.set("equal", report.equal);
    entry.set("nanoseconds", report.nanoseconds);
    entry.set("gflops", report.gflops);
    list.push_back(std::move(entry));
  }
  return list;
}

Status first_mismatch(const std::vector<compute::KernelReport>& reports) {
  for (const compute::KernelReport& report : reports)
    if (!report.equal)
      return Error{ErrorCode::kFailed,
                   report.operation + " " + report.encoding + " on " + report.isa +
                       " differs from the scalar code; force another level with --isa and report this"};
  return {};
}

}  // namespace

extern "C" {

colibri_status colibri_inspect(const char* path, int tensors, colibri_string* json, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (path == nullptr || json == nullptr) return capi::missing_argument(path == nullptr ? "path" : "json");
    COLIBRI_ASSIGN(const Json report, engine::inspect_model(path, tensors != 0));
    return capi::export_string(report.dump(), json);
  });
}

colibri_status colibri_validate(const char* path, int tokenizer_only, colibri_string* json, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (path == nullptr || json == nullptr) return capi::missing_argument(path == nullptr ? "path" : "json");
    COLIBRI_ASSIGN(const engine::Validation validation, engine::validate_model(path, tokenizer_only != 0));
    COLIBRI_TRY(capi::export_string(validation.report.dump(), json));
    return validation.ok ? Status{} : Error{ErrorCode::kInvalidModel, validation.first_problem};
  });
}

colibri_status colibri_doctor(const char* path, colibri_string* json, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (json == nullptr) return capi::missing_argument("json");
    COLIBRI_ASSIGN(const Json report, engine::examine_machine(path == nullptr ? "" : path));
    return capi::export_string(report.dump(), json);
  });
}

colibri_status colibri_self_test(const char* what, colibri_string* json, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (what == nullptr || json == nullptr) return capi::missing_argument(what == nullptr ? "what" : "json");
    const std::string_view name = what;
    if (name != "kernels" && name != "router")
      return Error{ErrorCode::kUsage, "no self-test \"" + std::string(name) + "\"; there are kernels and router"};
    COLIBRI_ASSIGN(const auto reports, name == "kernels" ? compute::test_kernels() : compute::test_router());
    COLIBRI_TRY(capi::export_string(kernel_reports_json(reports).dump(), json));
    return first_mismatch(reports);
  });
}

}  // extern "C"

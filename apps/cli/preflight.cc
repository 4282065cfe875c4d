#include "preflight.h"

#include <cstdlib>

#include "common/json.h"

namespace colibri::cli {
namespace {

// A positive whole number of the report's shape; `otherwise` when it is not there.
int64_t shape_number(const json::value& report, const char* key, int64_t otherwise) {
  const json::object* object = report.if_object();
  const json::value* shape = object != nullptr ? object->if_contains("shape") : nullptr;
  const json::value* value = shape != nullptr && shape->is_object() ? shape->get_object().if_contains(key) : nullptr;
  return value != nullptr && value->is_int64() && value->get_int64() > 0 ? value->get_int64() : otherwise;
}

}  // namespace

ModelLimits model_limits(const std::string& model, const Settings& settings) {
  ModelLimits limits;
  const auto text = api::inspect(model, false);
  const auto report = text ? parse_json(*text, model) : Outcome<json::value>(text.error());
  if (!report) return limits;
  limits.vocab_size = static_cast<int32_t>(
      std::min<int64_t>(limits.vocab_size, shape_number(*report, "vocab_size", limits.vocab_size)));
  limits.model_context = shape_number(*report, "context", limits.model_context);
  const std::string& setting = settings.at("context").value;
  const int64_t chosen = std::strtoll(setting.c_str(), nullptr, 10);  // checked before; "auto" gives 0
  limits.context = chosen > 0 ? chosen : limits.model_context;
  return limits;
}

Status check_room(const ModelLimits& limits, int64_t needed, const std::string& what) {
  if (needed <= limits.context) return {};
  const std::string advice = limits.context < limits.model_context
                                 ? "raise --context (the model allows " + std::to_string(limits.model_context) + ")"
                                 : "ask for less (the model was trained for no more)";
  return Error{COLIBRI_CONTEXT_OVERFLOW, what + " needs room for " + std::to_string(needed) +
                                             " tokens, the context holds " + std::to_string(limits.context) + "; " +
                                             advice};
}

}  // namespace colibri::cli

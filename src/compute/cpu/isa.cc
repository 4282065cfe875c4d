#include "compute/cpu/isa.h"

#include "compute/backend.h"

namespace colibri::compute {
namespace {

/// This build and this processor have it.
bool has(const Isa& isa) { return isa.kernels != nullptr && isa.available(platform::cpu_features()); }

std::string names(bool only_available) {
  std::string list = "auto";
  for (const Isa& isa : all_isas())
    if (!only_available || is_available(isa)) list += std::string(", ") + isa.name;
  return list;
}

}  // namespace

bool is_available(const Isa& isa) { return has(isa) && (isa.permitted == nullptr || isa.permitted()); }

Result<const Isa*> find_isa(const std::string& name) {
  for (const Isa& isa : all_isas()) {
    if (name == "auto" && isa.own_kernels && is_available(isa)) return &isa;
    if (name != isa.name) continue;
    if (is_available(isa)) return &isa;
    const std::string why = has(isa) ? "the operating system refuses " : "this CPU lacks ";
    return Error{ErrorCode::kUsage, "isa: " + why + name + "; there are " + names(true)};
  }
  return Error{ErrorCode::kUsage, "isa: unknown level '" + name + "'; known are " + names(false)};
}

std::vector<IsaLevel> isa_levels() {
  std::vector<IsaLevel> levels;
  for (const Isa& isa : all_isas()) levels.push_back({isa.name, is_available(isa)});
  return levels;
}

}  // namespace colibri::compute

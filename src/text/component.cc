#include "text/component.h"

#include "text/utf8.h"

namespace colibri::text {
namespace {

constexpr size_t kMostComponents = 64;  // published files have at most five
constexpr int kDeepestSequence = 16;

Status flatten_into(const Json& json, std::string_view key, int depth, std::vector<const Json*>& out) {
  if (component_type(json) != "Sequence") {
    out.push_back(&json);
  } else {
    const Json* members = json.find(key);
    if (!members || !members->is_array() || depth >= kDeepestSequence) {
      return Error{ErrorCode::kInvalidModel,
                   "a Sequence without its list " + std::string(key) + ", or nested too deep"};
    }
    for (const Json& member : members->as_array()) COLIBRI_TRY(flatten_into(member, key, depth + 1, out));
  }
  if (out.size() > kMostComponents) return Error{ErrorCode::kInvalidModel, "a Sequence of more than 64 components"};
  return {};
}

}  // namespace

std::string component_type(const Json& json) {
  const Json* type = json.find("type");
  return type && type->is_string() ? type->as_string() : "";
}

bool flag(const Json& json, std::string_view key, bool fallback) {
  const Json* value = json.find(key);
  return value && value->is_bool() ? value->as_bool() : fallback;
}

Result<std::string> string_member(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  if (value && value->is_string()) return value->as_string();
  return Error{ErrorCode::kInvalidModel, component_type(json) + " lacks the string " + std::string(key)};
}

Result<std::string> character_member(const Json& json, std::string_view key) {
  COLIBRI_ASSIGN(std::string value, string_member(json, key));
  size_t end = 0;
  if (!value.empty()) next_character(value, end);
  if (value.empty() || end != value.size()) {
    return Error{ErrorCode::kInvalidModel, component_type(json) + ": " + std::string(key) + " must be one character"};
  }
  return value;
}

Result<std::vector<const Json*>> flatten(const Json* json, std::string_view key) {
  std::vector<const Json*> out;
  if (json && !json->is_null()) COLIBRI_TRY(flatten_into(*json, key, 0, out));
  return out;
}

Error unsupported_component(std::string_view what, const Json& json) {
  return {ErrorCode::kUnsupported, std::string(what) + " \"" + component_type(json) + "\" is not supported"};
}

Result<PrependScheme> prepend_scheme(const Json& json) {
  const Json* scheme = json.find_value("prepend_scheme");
  if (!scheme) return flag(json, "add_prefix_space", true) ? PrependScheme::kAlways : PrependScheme::kNever;
  if (*scheme == Json("first")) return PrependScheme::kFirst;
  if (*scheme == Json("always")) return PrependScheme::kAlways;
  if (*scheme == Json("never")) return PrependScheme::kNever;
  return Error{ErrorCode::kInvalidModel, "Metaspace: prepend_scheme must be first, always or never"};
}

}  // namespace colibri::text

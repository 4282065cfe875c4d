#include "text/post_processor.h"

#include <limits>

#include "text/component.h"

namespace colibri::text {
namespace {

Error malformed(const std::string& what) {
  return {ErrorCode::kInvalidModel, "post-processor TemplateProcessing: " + what};
}

/// The ids that a template's special token stands for.
Result<TokenIds> special_ids(const Json& json, const std::string& name) {
  const Json* all = json.find("special_tokens");
  const Json* entry = all ? all->find(name) : nullptr;
  const Json* ids = entry ? entry->find("ids") : nullptr;
  if (!ids || !ids->is_array()) return malformed("special token \"" + name + "\" has no ids");
  TokenIds out;
  for (const Json& id : ids->as_array()) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() > std::numeric_limits<TokenId>::max()) {
      return malformed("special token \"" + name + "\" has an id that is none");
    }
    out.push_back(static_cast<TokenId>(id.as_int()));
  }
  return out;
}

/// A template around one text: [special ..., sequence A, special ...].
Result<PostProcessor> parse_template(const Json& json) {
  const Json* pieces = json.find("single");
  if (!pieces || !pieces->is_array()) return malformed("lacks the list single");
  PostProcessor out;
  bool behind = false;
  for (const Json& piece : pieces->as_array()) {
    if (piece.find("Sequence")) {
      if (behind) return malformed("holds the text twice");
      behind = true;
      continue;
    }
    const Json* token = piece.find("SpecialToken");
    const Json* name = token ? token->find("id") : nullptr;
    if (!name || !name->is_string()) return malformed("holds something else than Sequence and SpecialToken");
    COLIBRI_ASSIGN(const TokenIds ids, special_ids(json, name->as_string()));
    TokenIds& side = behind ? out.suffix : out.prefix;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!behind) return malformed("does not hold the text");
  return out;
}

/// BertProcessing, RobertaProcessing: "cls" in front and "sep" behind, each ["text", id].
Result<TokenIds> end_ids(const Json& json, std::string_view key) {
  const Json* pair = json.find(key);
  const bool fits = pair && pair->is_array() && pair->as_array().size() == 2 && pair->as_array()[1].is_int();
  const int64_t id = fits ? pair->as_array()[1].as_int() : -1;
  if (id < 0 || id > std::numeric_limits<TokenId>::max()) {
    return Error{ErrorCode::kInvalidModel,
                 "post-processor " + component_type(json) + ": " + std::string(key) + " is no [text, id]"};
  }
  return TokenIds{static_cast<TokenId>(id)};
}

Result<PostProcessor> parse_ends(const Json& json) {
  PostProcessor out;
  COLIBRI_ASSIGN(out.prefix, end_ids(json, "cls"));
  COLIBRI_ASSIGN(out.suffix, end_ids(json, "sep"));
  return out;
}

Result<PostProcessor> parse_one(const Json& json) {
  const std::string type = component_type(json);
  if (type == "TemplateProcessing") return parse_template(json);
  if (type == "BertProcessing" || type == "RobertaProcessing") return parse_ends(json);
  return unsupported_component("post-processor", json);
}

}  // namespace

Result<PostProcessor> PostProcessor::parse(const Json* json) {
  COLIBRI_ASSIGN(const auto parts, flatten(json, "processors"));
  PostProcessor all;
  for (const Json* part : parts) {
    if (component_type(*part) == "ByteLevel") continue;  // only moves offsets
    COLIBRI_ASSIGN(const PostProcessor one, parse_one(*part));
    all.prefix.insert(all.prefix.begin(), one.prefix.begin(), one.prefix.end());
    all.suffix.insert(all.suffix.end(), one.suffix.begin(), one.suffix.end());
  }
  return all;
}

}  // namespace colibri::text

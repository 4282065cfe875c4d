#include "engine/config_facts.h"

#include <algorithm>
#include <array>

#include "base/foreign_text.h"
#include "model/families/family.h"
#include "platform/file.h"

namespace colibri::engine {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

Status check_number(const std::string& path, const Json& config, const char* key, int64_t actual) {
  const Json* value = config.find_value(key);
  if (value == nullptr || *value == Json(actual)) return {};
  return Error{ErrorCode::kInvalidModel, path + ": \"" + key + "\" is " + value->dump() + ", the weights have " +
                                             std::to_string(actual) + "; the file belongs to another model"};
}

Status check_weight_format(const std::string& path, const Json& config, const formats::TensorCatalog& catalog) {
  const Json* value = config.find_value("weight_format");
  if (value == nullptr) return {};
  const auto has = [&](const formats::TensorInfo& tensor) {
    return value->is_string() && info(tensor.dtype).name == upper(value->as_string());
  };
  if (std::any_of(catalog.tensors().begin(), catalog.tensors().end(), has)) return {};
  return Error{ErrorCode::kInvalidModel, path + ": \"weight_format\" is " + value->dump() +
                                             ", but no tensor has that type; the file belongs to another model"};
}

}  // namespace

Status check_config_facts(const std::string& model_path, const model::ModelSpec& spec,
                          const formats::TensorCatalog& catalog) {
  const std::string path = platform::join(model::model_folder(model_path), "colibri_config.json");
  if (!platform::exists(path)) return {};
  COLIBRI_ASSIGN(const std::string text, platform::read_text_file(path, kMaxBytes));
  COLIBRI_ASSIGN(const Json config, parse_json_file(text).with_context(path));
  COLIBRI_TRY(check_number(path, config, "num_experts", spec.moe.router.n_experts));
  COLIBRI_TRY(check_number(path, config, "top_k", spec.moe.router.top_k));
  COLIBRI_TRY(check_number(path, config, "hidden_size", spec.hidden_size));
  COLIBRI_TRY(check_number(path, config, "vocab_size", spec.vocab_size));
  return check_weight_format(path, config, catalog);
}

}  // namespace colibri::engine

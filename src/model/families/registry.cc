#include <algorithm>
#include <array>

#include "base/edit_distance.h"
#include "base/foreign_text.h"
#include "model/families/family.h"
#include "platform/file.h"

namespace colibri::model {

extern const Family kLlama, kMistral, kSmolLm3, kMixtral, kOlmoe, kOlmo2, kQwen2, kQwen2Moe, kQwen3, kQwen3Moe,
    kQwen3Next, kQwen3_5Moe, kGptOss, kDeepseekV2, kDeepseekV3, kKimiK2, kGlm4MoeLite, kDeepseekV32, kGlmMoeDsa,
    kGlm4Moe, kDots1, kMinimaxM2, kErnie4_5Moe, kHunyuanV1Moe, kGraniteMoe, kGraniteMoeShared, kGraniteMoeHybrid,
    kLfm2Moe, kPhimoe, kGemma3Text, kGemma3, kGemma4, kLlama4, kAfmoe, kMimoV2Flash, kLongcatFlash, kKimiLinear,
    kBailingHybrid, kNemotronH, kDeepseekV4;

namespace {

constexpr std::array kFamilies = {&kLlama,
                                  &kMistral,
                                  &kSmolLm3,
                                  &kMixtral,
                                  &kOlmoe,
                                  &kOlmo2,
                                  &kQwen2,
                                  &kQwen2Moe,
                                  &kQwen3,
                                  &kQwen3Moe,
                                  &kQwen3Next,
                                  &kQwen3_5Moe,
                                  &kGptOss,
                                  &kDeepseekV2,
                                  &kDeepseekV3,
                                  &kKimiK2,
                                  &kGlm4MoeLite,
                                  &kDeepseekV32,
                                  &kGlmMoeDsa,
                                  &kGlm4Moe,
                                  &kDots1,
                                  &kMinimaxM2,
                                  &kErnie4_5Moe,
                                  &kHunyuanV1Moe,
                                  &kGraniteMoe,
                                  &kGraniteMoeShared,
                                  &kGraniteMoeHybrid,
                                  &kLfm2Moe,
                                  &kPhimoe,
                                  &kGemma3Text,
                                  &kGemma3,
                                  &kGemma4,
                                  &kLlama4,
                                  &kAfmoe,
                                  &kMimoV2Flash,
                                  &kLongcatFlash,
                                  &kKimiLinear,
                                  &kBailingHybrid,
                                  &kNemotronH,
                                  &kDeepseekV4};
constexpr int64_t kMaxConfigBytes = 64 << 20;

const Family* nearest(std::string_view name) {
  return *std::min_element(kFamilies.begin(), kFamilies.end(), [&](const Family* a, const Family* b) {
    return edit_distance(a->name, name) < edit_distance(b->name, name);
  });
}

std::string supported_names() {
  std::string names;
  for (const Family* family : kFamilies) names += (names.empty() ? "" : ", ") + std::string(family->name);
  return names;
}

Result<const Family*> find_family(const Json& config, const std::string& source) {
  const Json* type = config.find_value("model_type");
  if (type == nullptr || !type->is_string())
    return Error{ErrorCode::kInvalidModel, source + ": \"model_type\" is missing, so the family is not known"};
  const std::string name = type->as_string().substr(0, 100);
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family* f) { return f->name == name; });
  if (found == kFamilies.end())
    return Error{ErrorCode::kUnsupported, source + ": the family \"" + name +
                                              "\" has no forward pass in this version; nearest is \"" +
                                              std::string(nearest(name)->name) + "\"; supported: " + supported_names()};
  const Json* architectures = config.find_value("architectures");
  if (architectures != nullptr && architectures->is_array() && !architectures->as_array().empty()) {
    const Json& first = architectures->as_array().front();
    const auto& known = (*found)->architectures;
    if (std::none_of(known.begin(), known.end(), [&](std::string_view a) { return first == Json(a); }))
      return Error{ErrorCode::kInvalidModel, source + ": \"model_type\" is \"" + name + "\" (" +
                                                 std::string(known.front()) + "), but \"architectures\" names " +
                                                 first.dump().substr(0, 100) + "; one of them is wrong"};
  }
  return *found;
}

Status check_rope(const ModelSpec& spec, const std::string& source) {
  for (const RopeSpec& rope : spec.ropes) {
    const auto pairs = static_cast<size_t>(rope.rotary_dim / 2);
    const size_t n = rope.frequency_divisors.size();
    if (n != 0 && n != pairs)
      return Error{ErrorCode::kInvalidModel, source + ": rope_freqs.weight has " + std::to_string(n) + " values for " +
                                                 std::to_string(pairs) + " rotary pairs"};
  }
  return {};
}

// Models with other modalities keep what belongs to text in a block of its own, which wins over what stands outside.
Json text_config(const Json& config) {
  const Json* text = config.find_value("text_config");
  if (text == nullptr || !text->is_object()) return config;
  Json merged = config;
  for (const auto& [key, value] : text->as_object())
    if (key != "model_type" && key != "architectures") merged.set(key, value);
  return merged;
}

void add_ids(const Json* value, std::vector<int32_t>& ids) {
  if (value == nullptr) return;
  if (value->is_array()) {
    for (const Json& item : value->as_array()) add_ids(item.is_array() ? nullptr : &item, ids);
    return;
  }
  if (!value->is_int() || value->as_int() < 0 || value->as_int() > INT32_MAX) return;
  const auto id = static_cast<int32_t>(value->as_int());
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

// llama.cpp keeps the sampling defaults of generation_config.json under general.sampling.
Json generation_config_from_gguf(const Json& metadata) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kNames = {
      {{"temp", "temperature"}, {"top_k", "top_k"}, {"top_p", "top_p"}, {"min_p", "min_p"}}};
  Json config{Json::Object{}};
  for (const auto& [gguf, name] : kNames)
    if (const Json* value = metadata.find_value("general.sampling." + std::string(gguf))) config.set(name, *value);
  return config;
}

Status add_gguf_facts(const formats::TensorCatalog& catalog, ModelDescription& description) {
  const Json& metadata = catalog.metadata();
  description.names = description.family->gguf_names;
  description.interleaved_qk = description.family->gguf_interleaves_qk;
  description.folded_norms = true;
  description.generation_config = generation_config_from_gguf(metadata);
  description.generation_source = catalog.files().front().path() + " general.sampling";
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
    add_ids(metadata.find_value(key), description.eos_ids);
  return {};
}

Status add_folder_facts(const std::string& folder, const Json& config, ModelDescription& description) {
  description.names = description.family->names;
  description.generation_config = Json{Json::Object{}};
  const std::string path = platform::join(folder, "generation_config.json");
  description.generation_source = path;
  if (platform::exists(path)) {
    COLIBRI_ASSIGN(description.generation_config, read_config_file(path));
    add_ids(description.generation_config.find_value("eos_token_id"), description.eos_ids);
  }
  add_ids(config.find_value("eos_token_id"), description.eos_ids);
  return {};
}

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

std::string model_folder(const std::string& path) {
  return platform::is_directory(path) ? path : platform::parent(path);
}

Result<Json> read_config_file(const std::string& path) {
  COLIBRI_ASSIGN(const std::string text, platform::read_text_file(path, kMaxConfigBytes));
  return parse_json_file(text).with_context(path);
}

Result<ModelDescription> describe_config(const Json& config, const std::string& source) {
  if (!config.is_object()) return Error{ErrorCode::kInvalidModel, source + ": not a JSON object"};
  ModelDescription description;
  COLIBRI_ASSIGN(description.family, find_family(config, source));
  const Json text = text_config(config);
  COLIBRI_ASSIGN(description.quantisation, formats::read_quantisation(text, source));
  ConfigReader reader(text, source);
  COLIBRI_ASSIGN(description.spec, description.family->read_config(reader));
  COLIBRI_TRY(check_rope(description.spec, source));
  return description;
}

Result<ModelDescription> describe_model(const std::string& path, const formats::TensorCatalog& catalog) {
  if (catalog.format() == formats::Format::kGguf) {
    const std::string source = catalog.files().front().path();
    COLIBRI_ASSIGN(const Json config, config_from_gguf(catalog, source));
    COLIBRI_ASSIGN(ModelDescription description, describe_config(config, source));
    COLIBRI_TRY(add_gguf_facts(catalog, description));
    return description;
  }
  const std::string folder = model_folder(path);
  const std::string source = platform::join(folder, "config.json");
  COLIBRI_ASSIGN(const Json config, read_config_file(source));
  COLIBRI_ASSIGN(ModelDescription description, describe_config(config, source));
  COLIBRI_TRY(add_folder_facts(folder, config, description));
  return description;
}

int ModelSpec::n_moe_layers() const {
  return static_cast<int>(std::count_if(layers.begin(), layers.end(), [](const LayerSpec& l) { return l.moe; }));
}

bool ModelSpec::takes_long_factors(int64_t prompt_tokens) const {
  return std::any_of(ropes.begin(), ropes.end(), [prompt_tokens](const RopeSpec& rope) {
    return rope.has_long() && static_cast<double>(prompt_tokens) > rope.original_context;
  });
}

bool ModelSpec::recurrent() const {
  return std::any_of(layers.begin(), layers.end(), [this](const LayerSpec& l) {
    if (l.mixer == Mixer::kAttention) return attention_of(l).compressor.rate > 0;
    return l.mixer != Mixer::kNone;
  });
}

}  // namespace colibri::model

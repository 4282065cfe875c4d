#include <algorithm>
#include <array>

#include "base/edit_distance.h"
#include "base/foreign_text.h"
#include "model/families/family.h"
#include "model/weights.h"
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

// Without digits: another version of a family is nearer than another family.
std::string stem(std::string_view name) {
  std::string text(name);
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

// The latest of those that are equally near; nullptr when none has half of its letters in common.
const Family* nearest(std::string_view name) {
  const auto distance = [&](const Family* family) {
    return std::pair(edit_distance(stem(family->name), stem(name)), edit_distance(family->name, name));
  };
  const Family* best = kFamilies.front();
  for (const Family* family : kFamilies)
    if (distance(family) <= distance(best)) best = family;
  return 2 * static_cast<size_t>(distance(best).first) < std::max<size_t>(stem(name).size(), 1) ? best : nullptr;
}

std::string supported_names() {
  std::string names;
  for (const Family* family : kFamilies) names += (names.empty() ? "" : ", ") + std::string(family->name);
  return names;
}

Result<const Family*> find_family(const Json& config, const std::string& source) {
  const Json* type = config.find_value("model_type");
  if (type == nullptr || !type->is_string())
    return Error{ErrorCode::kInvalidModel, source + ": \"model_type\" is " +
                                               (type == nullptr ? "missing" : type->dump().substr(0, 100)) +
                                               ", so the family is not known"};
  const std::string name = type->as_string().substr(0, 100);
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family* f) { return f->name == name; });
  if (found == kFamilies.end()) {
    const Family* near = nearest(name);
    return Error{
        ErrorCode::kUnsupported,
        source + ": the family " + Json(name).dump() +
            " has no forward pass in this version: what is missing is a description of its layers and tensors " +
            "(docs/models.md, \"Adding a family\"); " +
            (near != nullptr ? "nearest is \"" + std::string(near->name) + "\"; " : "none is like it; ") +
            "supported: " + supported_names()};
  }
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

// What the readers of the families let through and the kernels would not take.
Status check_experts(const ModelSpec& spec, const std::string& source) {
  if (spec.n_moe_layers() == 0) return {};
  const Status status = compute::check_router(spec.moe.router);
  return status.ok() ? status : Status(Error{ErrorCode::kInvalidModel, source + ": " + status.error().message});
}

// NAME.anything, with or without something in front.
const formats::TensorInfo* find_stored(const formats::TensorCatalog& catalog, const ModelSpec& spec,
                                       std::string module) {
  if (module.starts_with("model.")) module.erase(0, 6);
  for (const formats::TensorInfo& tensor : catalog.tensors()) {
    const size_t at = tensor.name.find(module + ".");
    if (at != std::string::npos && (at == 0 || tensor.name[at - 1] == '.') && unused_part(tensor.name, spec).empty())
      return &tensor;
  }
  return nullptr;
}

Result<bool> same_bytes(const formats::TensorCatalog& catalog, const formats::TensorInfo& a,
                        const formats::TensorInfo& b) {
  if (a.dtype != b.dtype || a.bytes != b.bytes) return false;
  constexpr int64_t kPiece = 1 << 20;
  std::vector<std::byte> left, right;
  for (int64_t first = 0; first < a.bytes; first += kPiece) {
    const auto n = static_cast<size_t>(std::min(kPiece, a.bytes - first));
    left.resize(n);
    right.resize(n);
    COLIBRI_TRY(catalog.read(a, first, left));
    COLIBRI_TRY(catalog.read(b, first, right));
    if (left != right) return false;
  }
  return true;
}

// transformers 5 ties only where the file has one of the two, or both alike. Another head means that the config is
// wrong.
Status untie_stored_head(const formats::TensorCatalog& catalog, ModelDescription& description) {
  ModelSpec& spec = description.spec;
  const auto* head = spec.tied_head ? find_stored(catalog, spec, description.names->head) : nullptr;
  const auto* embed = head != nullptr ? find_stored(catalog, spec, description.names->embed) : nullptr;
  if (embed == nullptr) return {};
  COLIBRI_ASSIGN(spec.tied_head, same_bytes(catalog, *head, *embed));
  if (!spec.tied_head)
    spec.notes.emplace_back(
        "the file has an output head of its own, which is used although the config says "
        "\"tie_word_embeddings\": true");
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
  ConfigReader reader(text, source, description.family->keys);
  COLIBRI_ASSIGN(description.spec, description.family->read_config(reader));
  COLIBRI_TRY(check_rope(description.spec, source));
  COLIBRI_TRY(check_experts(description.spec, source));
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
  COLIBRI_TRY(untie_stored_head(catalog, description));
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

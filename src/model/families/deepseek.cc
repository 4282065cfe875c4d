// DeepSeek V2 to V3.2 and the models built like them: Kimi K2, GLM-4.7-Flash, GLM-5. Latent attention, shared experts,
// the first layers dense; V2 chooses experts by softmax, the later ones by sigmoid and a bias; V3.2 and GLM-5 have an
// indexer.
#include "model/families/family.h"

namespace colibri::model {
namespace {

void read_layers(ConfigReader& reader, ModelSpec& spec) {
  reader.require_value("moe_layer_freq", 1);
  const int width = reader.size("intermediate_size");
  first_layers_dense(spec, reader.count_or("first_k_dense_replace", 0), width);
  const std::vector<std::string> types = read_layer_types(reader, spec.n_layers(), "mlp_layer_types");
  for (size_t l = 0; l < types.size(); ++l) {
    const bool sparse = types[l] == "sparse";
    if (sparse != spec.layers[l].moe && reader.has("first_k_dense_replace"))
      reader.fail("mlp_layer_types", "contradicts first_k_dense_replace at layer " + std::to_string(l));
    spec.layers[l].moe = sparse;
    spec.layers[l].dense_width = sparse ? 0 : width;
  }
}

ModelSpec read_model(ConfigReader& reader, std::string_view family) {
  ModelSpec spec = read_common(reader, family);
  read_latent_attention(reader, spec);
  spec.ropes[0].interleaved = reader.flag_or("rope_interleave", true);
  return spec;
}

// transformers never renormalises, whatever norm_topk_prob says. GGUF files are computed by llama.cpp's rules for
// groups and for renormalising.
Result<ModelSpec> read_v2(ConfigReader& reader) {
  ModelSpec spec = read_model(reader, "deepseek_v2");
  MoeSpec& moe = spec.moe;
  moe.expert_width = reader.size("moe_intermediate_size");
  moe.shared_width = read_shared_width(reader, "n_shared_experts", moe.expert_width);
  compute::RouterParams& router = moe.router;
  reader.require_value("scoring_func", "softmax");
  router.n_experts = reader.size("n_routed_experts", 65536);
  router.top_k = reader.size("num_experts_per_tok", router.n_experts);
  router.scale = static_cast<float>(reader.positive_or("routed_scaling_factor", 1.0));
  router.renormalise = reader.flag_or("norm_topk_prob", false) && reader.from_gguf();
  const std::string method = reader.text_or("topk_method", "greedy");
  if (method != "greedy" && method != "group_limited_greedy")
    reader.fail_unsupported("topk_method", "is \"" + method + "\"; this family has greedy and group_limited_greedy");
  for (const char* key : {"n_group", "topk_group"}) reader.find(key);  // without a meaning for the greedy choice
  if (method == "group_limited_greedy") {
    router.group_score = reader.from_gguf() ? compute::GroupScore::kTwoLargest : compute::GroupScore::kLargest;
    read_groups(reader, router, "n_group");
    if (reader.from_gguf())
      spec.notes.emplace_back(
          "groups of experts are ranked by the sum of their two best, as llama.cpp does for its files; "
          "transformers ranks them by the best");
  }
  read_layers(reader, spec);
  return reader.finish(std::move(spec));
}

ModelSpec read_v3_model(ConfigReader& reader, std::string_view family) {
  ModelSpec spec = read_model(reader, family);
  read_deepseek_router(reader, spec);
  read_layers(reader, spec);
  return spec;
}

Result<ModelSpec> read_v3(ConfigReader& reader) { return reader.finish(read_v3_model(reader, "deepseek_v3")); }
Result<ModelSpec> read_kimi_k2(ConfigReader& reader) { return reader.finish(read_v3_model(reader, "kimi_k2")); }
Result<ModelSpec> read_glm_lite(ConfigReader& reader) { return reader.finish(read_v3_model(reader, "glm4_moe_lite")); }

// Layers marked "shared" use what the last indexer before them has chosen.
ModelSpec read_sparse_model(ConfigReader& reader, std::string_view family, bool interleaved_indexer) {
  ModelSpec spec = read_v3_model(reader, family);
  require_layer_types(reader, spec, "indexed_attention");
  IndexerSpec& indexer = spec.attentions[0].indexer;
  indexer.n_heads = reader.size("index_n_heads", 4096);
  indexer.head_dim = reader.size("index_head_dim", 4096);
  indexer.top_k = reader.size("index_topk");
  indexer.interleaved = interleaved_indexer;
  spec.attentions.push_back(spec.attentions[0]);
  spec.attentions[1].shares_indexer = true;
  const std::vector<std::string> types = read_layer_types(reader, spec.n_layers(), "indexer_types");
  if (!types.empty() && types[0] != "full") reader.fail("indexer_types", "begins with a layer that has no indexer");
  for (size_t l = 0; l < types.size(); ++l) spec.layers[l].attention = types[l] == "shared" ? 1 : 0;
  for (const char* key : {"index_topk_freq", "index_topk_pattern", "index_skip_topk_offset"})
    if (types.empty()) reader.require_neutral(key, nullptr);
  return spec;
}

Result<ModelSpec> read_v32(ConfigReader& reader) {
  return reader.finish(read_sparse_model(reader, "deepseek_v32", false));
}
Result<ModelSpec> read_glm_dsa(ConfigReader& reader) {
  return reader.finish(read_sparse_model(reader, "glm_moe_dsa", true));
}

Status translate_v2(const GgufFile& file, Json& config) {
  config.set("topk_method", file.number_or("expert_group_count", 1) > 1 ? "group_limited_greedy" : "greedy");
  return {};
}

std::vector<FamilyKeys::Synonym> v3_synonyms() {
  return {{"n_routed_experts", "num_local_experts"}, {"num_nextn_predict_layers", "num_mtp_layers"}};
}

FamilyKeys v3_keys() {
  return {.defaults = {{"rms_norm_eps", 1e-6},
                       {"routed_scaling_factor", 2.5},
                       {"n_group", 8},
                       {"topk_group", 4},
                       {"first_k_dense_replace", 3}},
          .synonyms = v3_synonyms()};
}

}  // namespace

extern const Family kDeepseekV2 = {
    .name = "deepseek_v2",
    .architectures = {"DeepseekV2ForCausalLM"},
    .gguf_architecture = "deepseek2",
    .read_config = read_v2,
    .keys = {.defaults = {{"rms_norm_eps", 1e-6}}, .synonyms = {{"n_routed_experts", "num_experts"}}},
    .names = &kDeepseekNames,
    .translate_gguf = translate_v2};

extern const Family kDeepseekV3 = {.name = "deepseek_v3",
                                   .architectures = {"DeepseekV3ForCausalLM"},
                                   .gguf_architecture = "deepseek2",
                                   .read_config = read_v3,
                                   .keys = v3_keys(),
                                   .names = &kDeepseekNames};

extern const Family kKimiK2 = {.name = "kimi_k2",
                               .architectures = {"DeepseekV3ForCausalLM", "KimiK2ForCausalLM"},
                               .gguf_architecture = "",  // its files say deepseek2
                               .read_config = read_kimi_k2,
                               .keys = v3_keys(),
                               .names = &kDeepseekNames};

extern const Family kGlm4MoeLite = {.name = "glm4_moe_lite",
                                    .architectures = {"Glm4MoeLiteForCausalLM"},
                                    .gguf_architecture = "",  // its files say deepseek2
                                    .read_config = read_glm_lite,
                                    .keys = {.defaults = {{"rms_norm_eps", 1e-5}, {"routed_scaling_factor", 1.8}},
                                             .synonyms = v3_synonyms(),
                                             .partial_rotary = true},
                                    .names = &kDeepseekNames};

extern const Family kDeepseekV32 = {.name = "deepseek_v32",
                                    .architectures = {"DeepseekV32ForCausalLM"},
                                    .gguf_architecture = "",
                                    .read_config = read_v32,
                                    .keys = v3_keys(),
                                    .names = &kDeepseekNames};

extern const Family kGlmMoeDsa = {
    .name = "glm_moe_dsa",
    .architectures = {"GlmMoeDsaForCausalLM"},
    .gguf_architecture = "",
    .read_config = read_glm_dsa,
    .keys = {.defaults = {{"rms_norm_eps", 1e-5}, {"routed_scaling_factor", 2.5}, {"first_k_dense_replace", 3}},
             .synonyms = v3_synonyms()},
    .names = &kDeepseekNames};

}  // namespace colibri::model

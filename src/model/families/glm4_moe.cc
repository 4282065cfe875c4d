// GLM-4.5 to 4.7: DeepSeek-V3 routing behind grouped-query attention with half of each head turning. dots.llm1
// likewise.
#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames gguf_names() {
  TensorNames n = kGgufNames;
  n.ffn_norm = "blk.{L}.post_attention_norm";
  return n;
}

const TensorNames kGguf = gguf_names();

Result<ModelSpec> read_glm(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "glm4_moe");
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = reader.flag_or("attention_bias", false);
  a.qk_norm = reader.flag_or("use_qk_norm", false) ? QkNorm::kPerHead : QkNorm::kNone;
  read_deepseek_router(reader, spec);
  first_layers_dense(spec, reader.count_or("first_k_dense_replace", 1), reader.size("intermediate_size"));
  return reader.finish(std::move(spec));
}

Result<ModelSpec> read_dots(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "dots1");
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  a.qk_norm = QkNorm::kPerHead;
  const std::vector<std::string> types = read_layer_types(reader, spec.n_layers());
  if (reader.find("sliding_window") != nullptr) split_sliding(reader, spec, types, reader.size("sliding_window"));
  read_deepseek_router(reader, spec);
  first_layers_dense(spec, reader.count_or("first_k_dense_replace", 0), reader.size("intermediate_size"));
  return reader.finish(std::move(spec));
}

Status translate_glm(const GgufFile& file, Json& config) {
  config.set("use_qk_norm", file.has("attn_q_norm.weight", 0));
  return {};
}

}  // namespace

extern const Family kGlm4Moe = {
    .name = "glm4_moe",
    .architectures = {"Glm4MoeForCausalLM"},
    .gguf_architecture = "glm4moe",
    .read_config = read_glm,
    .keys = {.defaults = {{"rms_norm_eps", 1e-5}, {"partial_rotary_factor", 0.5}},
             .synonyms = {{"n_routed_experts", "num_local_experts"}, {"num_nextn_predict_layers", "num_mtp_layers"}},
             .partial_rotary = true},
    .names = &kDeepseekNames,
    .gguf_names = &kGguf,
    .translate_gguf = translate_glm};

extern const Family kDots1 = {.name = "dots1",
                              .architectures = {"Dots1ForCausalLM"},
                              .gguf_architecture = "dots1",
                              .read_config = read_dots,
                              .keys = {.defaults = {{"rms_norm_eps", 1e-6}, {"norm_topk_prob", false}},
                                       .synonyms = {{"n_routed_experts", "num_local_experts"}}},
                              .names = &kDeepseekNames};

}  // namespace colibri::model

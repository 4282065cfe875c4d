// ERNIE 4.5: interleaved RoPE, softmax scores with a bias for the choice, ungated shared experts.
#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kDeepseekNames;
  n.choice_bias = "model.layers.{L}.mlp.moe_statics.e_score_correction_bias";
  return n;
}

const TensorNames kNames = names();

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "ernie4_5_moe");
  reader.require_neutral("use_bias", false);
  spec.ropes[0].interleaved = true;
  spec.moe.expert_width = reader.size("moe_intermediate_size");
  spec.moe.shared_width = read_shared_width(reader, "moe_num_shared_experts", spec.moe.expert_width);
  spec.moe.choice_bias = true;
  compute::RouterParams& router = spec.moe.router;
  router.n_experts = reader.size("moe_num_experts", 65536);
  router.top_k = reader.size("moe_k", router.n_experts);
  router.renormalise = true;
  router.sum_floor = static_cast<float>(reader.positive_or("moe_norm_min", 1e-12));
  const int width = reader.size("intermediate_size"), step = reader.size_or("moe_layer_interval", 1);
  const int first = reader.count_or("moe_layer_start_index", 1);
  const int last =
      reader.find("moe_layer_end_index") != nullptr && *reader.find("moe_layer_end_index") != Json(int64_t{-1})
          ? reader.count_or("moe_layer_end_index", 0)
          : spec.n_layers() - 1;
  for (LayerSpec& layer : spec.layers) {
    layer.moe = (layer.number + 1) % step == 0 && layer.number >= first && layer.number <= last;
    layer.dense_width = layer.moe ? 0 : width;
  }
  return reader.finish(std::move(spec));
}

Status translate_gguf(const GgufFile& file, Json& config) {
  file.copy("interleave_moe_layer_step", "moe_layer_interval", config);
  return {};
}

}  // namespace

extern const Family kErnie4_5Moe = {
    .name = "ernie4_5_moe",
    .architectures = {"Ernie4_5_MoeForCausalLM"},
    .gguf_architecture = "ernie4_5-moe",
    .read_config = read_config,
    .keys = {.defaults = {{"rms_norm_eps", 1e-5}, {"rope_theta", 500000.0}, {"tie_word_embeddings", true}},
             .synonyms = {{"moe_num_experts", "num_experts"}, {"moe_k", "num_experts_per_tok"}},
             .unused = {"moe_use_aux_free", "moe_gate", "moe_gate_act"}},
    .names = &kNames,
    .translate_gguf = translate_gguf};

}  // namespace colibri::model

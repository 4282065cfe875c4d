// Llama 4 (text): attention in chunks of positions, every fourth layer without RoPE and with sharpened late queries;
// one expert per token, whose weight multiplies what it reads, beside a shared one.
#include <algorithm>

#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kHuggingFaceNames;
  n.gate = "model.layers.{L}.feed_forward.gate_proj";
  n.up = "model.layers.{L}.feed_forward.up_proj";
  n.down = "model.layers.{L}.feed_forward.down_proj";
  n.router = "model.layers.{L}.feed_forward.router";
  n.stacked_gate_up = "model.layers.{L}.feed_forward.experts.gate_up_proj";
  n.stacked_down = "model.layers.{L}.feed_forward.experts.down_proj";
  n.shared_gate = "model.layers.{L}.feed_forward.shared_expert.gate_proj";
  n.shared_up = "model.layers.{L}.feed_forward.shared_expert.up_proj";
  n.shared_down = "model.layers.{L}.feed_forward.shared_expert.down_proj";
  n.stacked_transposed = true;
  return n;
}

const TensorNames kNames = names();

void read_attention(ConfigReader& reader, ModelSpec& spec) {
  spec.ropes[0].interleaved = true;
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  a.chunk = reader.size("attention_chunk_size");
  a.qk_norm = reader.flag_or("use_qk_norm", true) ? QkNorm::kNoWeight : QkNorm::kNone;
  a.norm_after_rope = true;
  spec.attentions.push_back(a);
  AttentionSpec& all = spec.attentions[1];
  all.rope = -1;
  all.chunk = 0;
  all.qk_norm = QkNorm::kNone;
  const Json* tuning = reader.find("attn_temperature_tuning");  // a number in some published configs
  if (tuning == nullptr || !is_off(*tuning)) {
    all.temperature_scale = static_cast<float>(reader.positive_or("attn_scale", 0.1));
    all.temperature_floor = static_cast<float>(reader.positive_or("floor_scale", 8192.0));
  }
  read_rope_layers(reader, spec);
  const std::vector<std::string> types = read_layer_types(reader, spec.n_layers());
  for (size_t l = 0; l < types.size(); ++l)
    if (types[l] != (spec.layers[l].attention == 0 ? "chunked_attention" : "full_attention"))
      reader.fail_unsupported("layer_types", "is \"" + types[l] + "\" for layer " + std::to_string(l) +
                                                 ", which no_rope_layers contradicts");
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "llama4");
  read_attention(reader, spec);
  MoeSpec& moe = spec.moe;
  moe.expert_width = moe.shared_width = reader.size("intermediate_size");
  moe.weight_on_input = true;
  moe.router.kind = compute::RouterKind::kSigmoid;
  moe.router.n_experts = reader.size("num_local_experts", 65536);
  moe.router.top_k = reader.size("num_experts_per_tok", moe.router.n_experts);
  const int step = reader.size_or("interleave_moe_layer_step", 1);
  const int width = reader.size("intermediate_size_mlp");
  const bool listed = reader.find("moe_layers") != nullptr;
  const std::vector<int> layers = reader.layers_or_empty("moe_layers", spec.n_layers());
  for (LayerSpec& layer : spec.layers) {
    const bool in_step = (layer.number + 1) % step == 0;
    layer.moe = listed ? std::find(layers.begin(), layers.end(), layer.number) != layers.end() : in_step;
    layer.dense_width = layer.moe ? 0 : width;
    if (layer.moe != in_step && reader.has("interleave_moe_layer_step"))
      reader.fail(
          "interleave_moe_layer_step",
          "is " + std::to_string(step) + ", which \"moe_layers\" contradicts at layer " + std::to_string(layer.number));
  }
  return reader.finish(std::move(spec));
}

// Maverick, the model with 128 experts, has no norms on q and k; the chunk is fixed in llama.cpp.
Status translate_gguf(const GgufFile& file, Json& config) {
  config.set("attention_chunk_size", file.number_or("attention.chunk_size", 8192));
  config.set("use_qk_norm", file.number_or("expert_count", 0) != 128);
  file.copy("feed_forward_length", "intermediate_size_mlp", config);
  file.copy("expert_feed_forward_length", "intermediate_size", config);
  file.copy("interleave_moe_layer_step", "interleave_moe_layer_step", config);
  return {};
}

}  // namespace

extern const Family kLlama4 = {.name = "llama4",
                               .architectures = {"Llama4ForConditionalGeneration", "Llama4ForCausalLM"},
                               .gguf_architecture = "llama4",
                               .read_config = read_config,
                               .keys = {.defaults = {{"rms_norm_eps", 1e-5}, {"rope_theta", 500000.0}},
                                        .synonyms = {{"num_local_experts", "num_experts"}}},
                               .names = &kNames,
                               .translate_gguf = translate_gguf};

}  // namespace colibri::model

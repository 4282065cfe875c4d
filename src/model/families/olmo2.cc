// OLMo 2: norms stand behind the blocks instead of before them, and over the full rows of q and k.
#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kHuggingFaceNames;
  n.attention_post_norm = "model.layers.{L}.post_attention_layernorm";
  n.ffn_post_norm = "model.layers.{L}.post_feedforward_layernorm";
  return n;
}

const TensorNames kNames = names();

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "olmo2");
  spec.pre_norm = false;
  spec.post_norm = true;
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  a.qk_norm = QkNorm::kFullRow;
  all_layers_dense(spec, reader.size("intermediate_size"));
  return reader.finish(std::move(spec));
}

}  // namespace

extern const Family kOlmo2 = {.name = "olmo2",
                              .architectures = {"Olmo2ForCausalLM"},
                              .gguf_architecture = "olmo2",
                              .read_config = read_config,
                              .keys = {.defaults = {{"rms_norm_eps", 1e-5}}},
                              .names = &kNames};

}  // namespace colibri::model

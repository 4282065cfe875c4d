// Qwen3 (dense): Llama with an RMS norm over each head of q and k before RoPE.
#include "model/families/family.h"

namespace colibri::model {
namespace {

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "qwen3");
  const bool bias = reader.flag_or("attention_bias", false);
  spec.attention.qkv_bias = bias;
  spec.attention.output_bias = bias;
  spec.attention.qk_norm = QkNorm::kPerHead;
  const int width = reader.size("intermediate_size");
  for (LayerSpec& layer : spec.layers) layer.dense_width = width;
  return reader.finish(std::move(spec));
}

}  // namespace

const Family kQwen3 = {"qwen3", "Qwen3ForCausalLM", "qwen3", read_config, &kHuggingFaceNames, false};

}  // namespace colibri::model

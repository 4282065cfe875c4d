// Llama 2 and 3: the dense decoder that the others vary. RMS norm, grouped-query attention, SiLU-gated MLP.
#include "model/families/family.h"

namespace colibri::model {
namespace {

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "llama");
  reader.require_neutral("sliding_window", nullptr);
  const bool bias = reader.flag_or("attention_bias", false);
  spec.attention.qkv_bias = bias;
  spec.attention.output_bias = bias;
  const int width = reader.size("intermediate_size");
  for (LayerSpec& layer : spec.layers) layer.dense_width = width;
  return reader.finish(std::move(spec));
}

}  // namespace

const Family kLlama = {"llama", "LlamaForCausalLM", "llama", read_config, &kHuggingFaceNames, true};

}  // namespace colibri::model

// Llama and the dense models that differ from it in a setting or two: Mistral (a window), SmolLM3 (layers without
// RoPE).
#include "model/families/family.h"

namespace colibri::model {
namespace {

ModelSpec read_dense(ConfigReader& reader, std::string_view family) {
  ModelSpec spec = read_common(reader, family);
  const bool bias = reader.flag_or("attention_bias", false);
  spec.attentions[0].qkv_bias = bias;
  spec.attentions[0].output_bias = bias;
  all_layers_dense(spec, reader.size("intermediate_size"));
  return spec;
}

Result<ModelSpec> read_llama(ConfigReader& reader) { return reader.finish(read_dense(reader, "llama")); }

Result<ModelSpec> read_mistral(ConfigReader& reader) {
  ModelSpec spec = read_dense(reader, "mistral");
  spec.attentions[0].window = reader.count_or("sliding_window", 0);
  return reader.finish(std::move(spec));
}

// no_rope_layers has a 1 for each layer that turns; without it, every no_rope_layer_interval-th does not.
Result<ModelSpec> read_smollm3(ConfigReader& reader) {
  ModelSpec spec = read_dense(reader, "smollm3");
  reader.require_neutral("use_sliding_window", false);
  const int interval = reader.size_or("no_rope_layer_interval", 4);
  spec.attentions.push_back(spec.attentions[0]);
  spec.attentions[1].rope = -1;
  for (LayerSpec& layer : spec.layers)
    layer.attention = reader.flag_at_or("no_rope_layers", layer.number, (layer.number + 1) % interval != 0) ? 0 : 1;
  return reader.finish(std::move(spec));
}

}  // namespace

extern const Family kLlama = {.name = "llama",
                              .architectures = {"LlamaForCausalLM"},
                              .gguf_architecture = "llama",
                              .read_config = read_llama,
                              .gguf_interleaves_qk = true};

extern const Family kMistral = {.name = "mistral",
                                .architectures = {"MistralForCausalLM"},
                                .gguf_architecture = "",  // its files say llama
                                .read_config = read_mistral};

extern const Family kSmolLm3 = {.name = "smollm3",
                                .architectures = {"SmolLM3ForCausalLM"},
                                .gguf_architecture = "smollm3",
                                .read_config = read_smollm3,
                                .gguf_interleaves_qk = true};

}  // namespace colibri::model

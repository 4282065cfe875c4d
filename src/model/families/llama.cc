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

Result<ModelSpec> read_smollm3(ConfigReader& reader) {
  ModelSpec spec = read_dense(reader, "smollm3");
  reader.require_neutral("use_sliding_window", false);
  spec.attentions.push_back(spec.attentions[0]);
  spec.attentions[1].rope = -1;
  read_rope_layers(reader, spec);
  return reader.finish(std::move(spec));
}

}  // namespace

extern const Family kLlama = {.name = "llama",
                              .architectures = {"LlamaForCausalLM"},
                              .gguf_architecture = "llama",
                              .read_config = read_llama,
                              .keys = {.defaults = {{"rms_norm_eps", 1e-6}}},
                              .gguf_interleaves_qk = true};

extern const Family kMistral = {.name = "mistral",
                                .architectures = {"MistralForCausalLM"},
                                .gguf_architecture = "",  // its files say llama
                                .read_config = read_mistral,
                                .keys = {.defaults = {{"rms_norm_eps", 1e-6}, {"sliding_window", 4096}}}};

extern const Family kSmolLm3 = {
    .name = "smollm3",
    .architectures = {"SmolLM3ForCausalLM"},
    .gguf_architecture = "smollm3",
    .read_config = read_smollm3,
    .keys = {.defaults = {{"rms_norm_eps", 1e-6}, {"rope_theta", 2e6}, {"tie_word_embeddings", true}}},
    .gguf_interleaves_qk = true};

}  // namespace colibri::model

// Mixtral: Llama whose every MLP is a mixture of experts; softmax over all experts, top k, renormalised.
#include "model/families/family.h"

namespace colibri::model {
namespace {

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "mixtral");
  // Early configs name a window as long as the context, which changes nothing.
  const int window = reader.count_or("sliding_window", 0);
  spec.attentions[0].window = window < spec.context ? window : 0;
  spec.moe.expert_width = reader.size("intermediate_size");
  spec.moe.router.n_experts = reader.size("num_local_experts", 65536);
  spec.moe.router.top_k = reader.size("num_experts_per_tok", spec.moe.router.n_experts);
  spec.moe.router.renormalise = true;
  all_layers_moe(spec);
  return reader.finish(std::move(spec));
}

}  // namespace

extern const Family kMixtral = {.name = "mixtral",
                                .architectures = {"MixtralForCausalLM"},
                                .gguf_architecture = "llama",
                                .read_config = read_config,
                                .keys = {.defaults = {{"rms_norm_eps", 1e-5}, {"rope_theta", 1e6}},
                                         .synonyms = {{"num_local_experts", "num_experts"}}},
                                .names = &kMixtralNames,
                                .gguf_interleaves_qk = true};

}  // namespace colibri::model

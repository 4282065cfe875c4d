// Mixtral: Llama whose every MLP is a mixture of experts; softmax over all experts, top k, renormalised.
#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kHuggingFaceNames;
  n.router = "model.layers.{L}.block_sparse_moe.gate";
  n.expert_gate = "model.layers.{L}.block_sparse_moe.experts.{E}.w1";
  n.expert_up = "model.layers.{L}.block_sparse_moe.experts.{E}.w3";
  n.expert_down = "model.layers.{L}.block_sparse_moe.experts.{E}.w2";
  return n;
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "mixtral");
  // Early configs name a window as long as the context, which changes nothing.
  if (reader.count_or("sliding_window", 0) < spec.context) reader.require_neutral("sliding_window", 0);
  reader.require_neutral("attention_bias", false);
  spec.moe.expert_width = reader.size("intermediate_size");
  spec.moe.router.n_experts = reader.size("num_local_experts", 65536);
  spec.moe.router.top_k = reader.size("num_experts_per_tok", spec.moe.router.n_experts);
  spec.moe.router.renormalise = true;
  for (LayerSpec& layer : spec.layers) layer.moe = true;
  return reader.finish(std::move(spec));
}

}  // namespace

const TensorNames kMixtralNames = names();

const Family kMixtral = {"mixtral", "MixtralForCausalLM", "llama", read_config, &kMixtralNames, true};

}  // namespace colibri::model

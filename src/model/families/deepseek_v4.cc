// DeepSeek-V4: one shared key in a window and compressed keys beside it, several residual streams, the first layers'
// experts by token. Configs come as transformers writes them, or with the older keys of the published files.
#include "model/families/family.h"

namespace colibri::model {
namespace {

enum AttentionType { kSliding, kHeavilyCompressed, kCompressedSparse };

TensorNames names() {
  TensorNames n;
  n.embed = "model.embed";
  n.final_norm = "model.norm";
  n.head = "head";
  n.attention_norm = "model.layers.{L}.attn_norm";
  n.ffn_norm = "model.layers.{L}.ffn_norm";
  n.mixer_streams = "model.layers.{L}.hc_attn";
  n.ffn_streams = "model.layers.{L}.hc_ffn";
  n.final_streams = "model.hc_head";
  n.q_down = "model.layers.{L}.attn.wq_a";
  n.q_down_norm = "model.layers.{L}.attn.q_norm";
  n.q_up = "model.layers.{L}.attn.wq_b";
  n.k = "model.layers.{L}.attn.wkv";
  n.k_norm = "model.layers.{L}.attn.kv_norm";
  n.output_down = "model.layers.{L}.attn.wo_a";
  n.output = "model.layers.{L}.attn.wo_b";
  n.sinks = "model.layers.{L}.attn.attn_sink";
  n.compressor = "model.layers.{L}.attn.compressor";
  n.index_compressor = "model.layers.{L}.attn.indexer.compressor";
  n.index_q = "model.layers.{L}.attn.indexer.wq_b";
  n.index_weights = "model.layers.{L}.attn.indexer.weights_proj";
  n.router = "model.layers.{L}.ffn.gate";
  n.choice_bias = "model.layers.{L}.ffn.gate.bias";
  n.token_experts = "model.layers.{L}.ffn.gate.tid2eid";
  n.expert_gate = "model.layers.{L}.ffn.experts.{E}.w1";
  n.expert_up = "model.layers.{L}.ffn.experts.{E}.w3";
  n.expert_down = "model.layers.{L}.ffn.experts.{E}.w2";
  n.shared_gate = "model.layers.{L}.ffn.shared_experts.w1";
  n.shared_up = "model.layers.{L}.ffn.shared_experts.w3";
  n.shared_down = "model.layers.{L}.ffn.shared_experts.w2";
  return n;
}

const TensorNames kNames = names();

int read_rate(ConfigReader& reader, const char* type, int fallback) {
  const Json* rates = reader.find("compress_rates");
  const Json* rate = rates != nullptr ? rates->find_value(type) : nullptr;
  if (rate == nullptr) return fallback;
  if (rate->is_int() && rate->as_int() >= 1 && rate->as_int() <= 1 << 16) return static_cast<int>(rate->as_int());
  reader.fail("compress_rates", "has " + rate->dump().substr(0, 100) + " for " + type + ", expected 1 to 65536");
  return fallback;
}

// What stands outside of the blocks of rope_parameters must not contradict them.
void check_ropes(ConfigReader& reader, const ModelSpec& spec) {
  const int turning = spec.ropes[0].rotary_dim;
  const double part = reader.fraction_or("partial_rotary_factor", 0);
  if (spec.ropes[1].rotary_dim != turning || reader.size_or("qk_rope_head_dim", turning) != turning ||
      (part != 0 && static_cast<int>(spec.attentions[0].head_dim * part) != turning))
    reader.fail("qk_rope_head_dim", "contradicts \"partial_rotary_factor\": RoPE turns " + std::to_string(turning) +
                                        " elements of a head here, " + std::to_string(spec.ropes[1].rotary_dim) +
                                        " there");
  const auto check = [&](const char* key, double theta) {
    if (reader.positive_or(key, theta) != theta) reader.fail(key, "contradicts the one in \"rope_parameters\"");
  };
  check("rope_theta", spec.ropes[0].theta);
  check("compress_rope_theta", spec.ropes[1].theta);
}

// Layers without compressed keys have a RoPE of their own.
void read_ropes(ConfigReader& reader, ModelSpec& spec) {
  const int head_dim = spec.attentions[0].head_dim, turning = reader.size_or("qk_rope_head_dim", head_dim, head_dim);
  const Json* ropes = reader.find("rope_parameters");
  const Json* main = ropes != nullptr ? ropes->find_value("main") : nullptr;
  const Json* compress = ropes != nullptr ? ropes->find_value("compress") : nullptr;
  if (main != nullptr && compress != nullptr) {
    spec.ropes = {read_rope(reader, main, head_dim, turning), read_rope(reader, compress, head_dim, turning)};
  } else {
    const Json* scaling = ropes != nullptr ? ropes : reader.find("rope_scaling");
    spec.ropes = {read_rope(reader, nullptr, head_dim, turning), read_rope(reader, scaling, head_dim, turning)};
    spec.ropes[1].theta = reader.positive_or("compress_rope_theta", 160000.0);
    spec.ropes[1].attention_factor = 1.0;
  }
  for (RopeSpec& rope : spec.ropes) rope.interleaved = true;
  check_ropes(reader, spec);
}

void read_attentions(ConfigReader& reader, ModelSpec& spec) {
  AttentionSpec& a = spec.attentions[0];
  a.shared_key = a.sinks = true;
  a.query_rank = reader.size("q_lora_rank", 1 << 20);
  a.latent_norm_eps = spec.norm_eps;
  a.window = reader.size("sliding_window");
  a.output_groups = reader.size("o_groups", a.n_heads);
  a.output_rank = reader.size("o_lora_rank", 1 << 20);
  if (a.n_kv_heads != 1) reader.fail("num_key_value_heads", "must be 1: all heads share one key");
  if (a.n_heads % a.output_groups != 0) reader.fail("o_groups", "does not divide the heads");
  read_ropes(reader, spec);

  AttentionSpec heavy = a;
  heavy.rope = 1;
  heavy.compressor.rate = read_rate(reader, "heavily_compressed_attention", 128);
  AttentionSpec sparse = heavy;
  sparse.compressor = {read_rate(reader, "compressed_sparse_attention", 4), true};
  sparse.indexer.n_heads = reader.size("index_n_heads", 4096);
  sparse.indexer.head_dim = reader.size("index_head_dim", 4096);
  sparse.indexer.top_k = reader.size("index_topk");
  if (spec.ropes[1].rotary_dim > sparse.indexer.head_dim)
    reader.fail("index_head_dim", "is smaller than the elements that RoPE turns");
  spec.attentions = {a, heavy, sparse};
}

AttentionType type_named(ConfigReader& reader, const std::string& type) {
  if (type == "heavily_compressed_attention") return kHeavilyCompressed;
  if (type == "compressed_sparse_attention") return kCompressedSparse;
  if (type != "sliding_attention")
    reader.fail_unsupported("layer_types", "holds \"" + type +
                                               "\"; this family has sliding_attention, "
                                               "heavily_compressed_attention and compressed_sparse_attention");
  return kSliding;
}

// Published configs say how many positions a compressed key of each layer stands for.
AttentionType type_of_ratio(ConfigReader& reader, const ModelSpec& spec, size_t layer) {
  const Json* ratios = reader.find("compress_ratios");
  if (ratios == nullptr || !ratios->is_array() || ratios->as_array().size() < spec.layers.size()) {
    reader.fail("layer_types", "is missing, and so is a list compress_ratios with a number for each layer");
    return kSliding;
  }
  const Json& ratio = ratios->as_array()[layer];
  if (ratio == Json(0)) return kSliding;
  for (const AttentionType type : {kHeavilyCompressed, kCompressedSparse})
    if (ratio == Json(spec.attentions[type].compressor.rate)) return type;
  reader.fail_unsupported("compress_ratios", "holds " + ratio.dump().substr(0, 100) + ", which no attention here has");
  return kSliding;
}

void read_layers(ConfigReader& reader, ModelSpec& spec) {
  const std::vector<std::string> types = read_layer_types(reader, spec.n_layers());
  const std::vector<std::string> mlps = read_layer_types(reader, spec.n_layers(), "mlp_layer_types");
  const int n_hash = reader.count_or("num_hash_layers", 3);
  all_layers_moe(spec);
  for (size_t l = 0; l < spec.layers.size() && !reader.failed(); ++l) {
    spec.layers[l].attention = types.empty() ? type_of_ratio(reader, spec, l) : type_named(reader, types[l]);
    spec.layers[l].hash_moe = mlps.empty() ? static_cast<int>(l) < n_hash : mlps[l] == "hash_moe";
    if (!mlps.empty() && mlps[l] != "hash_moe" && mlps[l] != "moe")
      reader.fail_unsupported("mlp_layer_types", "holds \"" + mlps[l] + "\"; this family has hash_moe and moe");
  }
}

void read_experts(ConfigReader& reader, ModelSpec& spec) {
  MoeSpec& moe = spec.moe;
  moe.expert_width = reader.size("moe_intermediate_size");
  moe.shared_width = read_shared_width(reader, "n_shared_experts", moe.expert_width);
  moe.choice_bias = true;
  compute::RouterParams& router = moe.router;
  reader.require_value("scoring_func", "sqrtsoftplus");
  reader.require_value("topk_method", "noaux_tc");
  reader.require_value("norm_topk_prob", true);
  router.kind = compute::RouterKind::kSqrtSoftplus;
  router.n_experts = reader.size("n_routed_experts", 65536);
  router.top_k = reader.size("num_experts_per_tok", router.n_experts);
  router.renormalise = true;
  router.sum_offset = 1e-20f;
  router.scale = static_cast<float>(reader.positive_or("routed_scaling_factor", 1.0));
  spec.activation.kind = compute::ActivationKind::kSiluClamped;
  spec.activation.limit = static_cast<float>(reader.positive("swiglu_limit"));
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "deepseek_v4");
  read_attentions(reader, spec);
  read_experts(reader, spec);
  read_layers(reader, spec);
  spec.streams.n = reader.size("hc_mult", compute::kMaxStreams);
  spec.streams.iterations = reader.size("hc_sinkhorn_iters", 1000);
  spec.streams.eps = static_cast<float>(reader.positive_or("hc_eps", 1e-6));
  return reader.finish(std::move(spec));
}

}  // namespace

extern const Family kDeepseekV4 = {.name = "deepseek_v4",
                                   .architectures = {"DeepseekV4ForCausalLM"},
                                   .gguf_architecture = "",
                                   .read_config = read_config,
                                   .keys = {.defaults = {{"rms_norm_eps", 1e-6}, {"routed_scaling_factor", 1.5}},
                                            .synonyms = {{"n_routed_experts", "num_local_experts"}},
                                            .partial_rotary = true},
                                   .names = &kNames};

}  // namespace colibri::model

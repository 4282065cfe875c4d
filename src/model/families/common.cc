// What many families read alike: sizes and heads, kinds of layers, DeepSeek's router and latent attention.
#include <algorithm>
#include <cmath>

#include "model/families/config.h"

namespace colibri::model {

ModelSpec read_common(ConfigReader& reader, std::string_view family, std::string_view layers_key,
                      std::string_view eps_key) {
  ModelSpec spec;
  spec.family = family;
  spec.vocab_size = reader.size("vocab_size", 1 << 24);
  spec.hidden_size = reader.size("hidden_size", 1 << 20);
  spec.context =
      reader.size(reader.find("max_position_embeddings") != nullptr || reader.find("model_max_length") == nullptr
                      ? "max_position_embeddings"
                      : "model_max_length");
  spec.norm_eps = static_cast<float>(reader.positive(eps_key));
  spec.tied_head = reader.flag_or("tie_word_embeddings", false);
  spec.prediction_layers = reader.count_or("num_nextn_predict_layers", 0);
  const int n_layers = reader.size(layers_key, 4096);
  spec.layers.assign(static_cast<size_t>(n_layers), LayerSpec{});
  for (int l = 0; l < n_layers; ++l) spec.layers[static_cast<size_t>(l)].number = l;

  AttentionSpec attention;
  attention.n_heads = reader.size("num_attention_heads", 4096);
  attention.n_kv_heads = reader.size_or("num_key_value_heads", attention.n_heads, 4096);
  const bool latent = reader.find("qk_rope_head_dim") != nullptr;  // read_latent_attention knows the widths then
  if (reader.find("head_dim") == nullptr && !latent && spec.hidden_size % attention.n_heads != 0)
    reader.fail("head_dim", "is missing and hidden_size is no multiple of num_attention_heads");
  const int width = latent ? reader.size("qk_rope_head_dim", 4096) : std::max(1, spec.hidden_size / attention.n_heads);
  attention.head_dim = reader.size_or("head_dim", width, 4096);
  attention.value_dim = attention.head_dim;
  if (attention.n_heads % attention.n_kv_heads != 0)
    reader.fail("num_key_value_heads", "is " + std::to_string(attention.n_kv_heads) + ", which does not divide " +
                                           std::to_string(attention.n_heads) + " query heads");
  attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(attention.head_dim)));
  attention.rope = 0;
  spec.ropes.push_back(read_rope(reader, attention.head_dim, attention.head_dim));
  spec.attentions.push_back(attention);
  return spec;
}

std::vector<std::string> read_layer_types(ConfigReader& reader, int n_layers, std::string_view key) {
  std::vector<std::string> types;
  const Json* value = reader.find(key);
  if (value == nullptr) return types;
  if (!value->is_array() || value->as_array().size() != static_cast<size_t>(n_layers)) {
    reader.fail(key, "must be a list of " + std::to_string(n_layers) + " types, one for each layer");
    return types;
  }
  for (const Json& type : value->as_array()) types.push_back(type.is_string() ? type.as_string() : type.dump());
  return types;
}

void require_layer_types(ConfigReader& reader, const ModelSpec& spec, std::string_view type) {
  for (const std::string& found : read_layer_types(reader, spec.n_layers()))
    if (found != type)
      reader.fail_unsupported("layer_types",
                              "holds \"" + found + "\"; this family is computed with " + std::string(type) + " only");
}

void split_sliding(ConfigReader& reader, ModelSpec& spec, const std::vector<std::string>& types, int window) {
  spec.attentions.push_back(spec.attentions.front());
  spec.attentions.back().window = window;
  for (size_t l = 0; l < types.size() && l < spec.layers.size(); ++l) {
    if (types[l] == "sliding_attention")
      spec.layers[l].attention = 1;
    else if (types[l] != "full_attention")
      reader.fail_unsupported("layer_types",
                              "holds \"" + types[l] + "\"; this family has full_attention and sliding_attention");
  }
}

void check_interval(ConfigReader& reader, const char* key, int interval, const std::vector<std::string>& types) {
  if (!reader.has(key)) return;
  for (size_t l = 0; l < types.size(); ++l)
    if ((types[l] == "full_attention") != ((l + 1) % static_cast<size_t>(interval) == 0))
      reader.fail(
          key, "is " + std::to_string(interval) + ", which \"layer_types\" contradicts at layer " + std::to_string(l));
}

void read_rope_layers(ConfigReader& reader, ModelSpec& spec) {
  const Json* list = reader.find("no_rope_layers");
  const bool listed = list != nullptr && !is_off(*list);
  const int interval = reader.size_or("no_rope_layer_interval", 4);
  for (LayerSpec& layer : spec.layers) {
    const bool in_step = (layer.number + 1) % interval != 0;
    const bool turns = listed ? reader.flag_at_or("no_rope_layers", layer.number, in_step) : in_step;
    layer.attention = turns ? 0 : 1;
    if (turns != in_step && reader.has("no_rope_layer_interval"))
      reader.fail("no_rope_layer_interval", "is " + std::to_string(interval) +
                                                ", which \"no_rope_layers\" contradicts at layer " +
                                                std::to_string(layer.number));
  }
}

void read_sparse_layers(ConfigReader& reader, ModelSpec& spec, int dense_width) {
  const std::vector<int> dense = reader.layers_or_empty("mlp_only_layers", spec.n_layers());
  const int step = reader.size_or("decoder_sparse_step", 1);
  for (LayerSpec& layer : spec.layers) {
    layer.moe = (layer.number + 1) % step == 0 && std::find(dense.begin(), dense.end(), layer.number) == dense.end();
    layer.dense_width = layer.moe ? 0 : dense_width;
  }
}

void first_layers_dense(ModelSpec& spec, int n_dense, int dense_width) {
  for (LayerSpec& layer : spec.layers) {
    layer.moe = layer.number >= n_dense;
    layer.dense_width = layer.moe ? 0 : dense_width;
  }
}

void all_layers_moe(ModelSpec& spec) { first_layers_dense(spec, 0, 0); }

void all_layers_dense(ModelSpec& spec, int width) { first_layers_dense(spec, spec.n_layers(), width); }

int read_shared_width(ConfigReader& reader, std::string_view count_key, int expert_width) {
  const int width = expert_width * reader.count_or(count_key, 0);
  return reader.from_gguf() ? reader.count_or("shared_expert_intermediate_size", width) : width;
}

void read_groups(ConfigReader& reader, compute::RouterParams& router, const char* groups_key, const char* chosen_key) {
  router.n_groups = reader.size_or(groups_key, 1, compute::kMaxRouterGroups);
  router.top_groups = reader.size_or(chosen_key, 1, router.n_groups);
  const int size = router.n_experts / router.n_groups,
            least = router.group_score == compute::GroupScore::kTwoLargest ? 2 : 1;
  const std::string experts = std::to_string(router.n_experts) + " experts";
  if (size * router.n_groups != router.n_experts || (router.n_groups > 1 && size < least))
    reader.fail(groups_key, "is " + std::to_string(router.n_groups) + ", but " + experts +
                                " do not make that many equal groups of " + std::to_string(least) + " or more");
  else if (router.top_k > size * router.top_groups)
    reader.fail(chosen_key, "is " + std::to_string(router.top_groups) + " of " + std::to_string(router.n_groups) +
                                " groups of " + experts + ", too few to choose " + std::to_string(router.top_k));
}

void read_deepseek_router(ConfigReader& reader, ModelSpec& spec) {
  MoeSpec& moe = spec.moe;
  moe.expert_width = reader.size("moe_intermediate_size");
  moe.shared_width = read_shared_width(reader, "n_shared_experts", moe.expert_width);
  moe.choice_bias = true;
  compute::RouterParams& router = moe.router;
  reader.require_value("scoring_func", "sigmoid");
  reader.require_value("topk_method", "noaux_tc");
  router.kind = compute::RouterKind::kSigmoid;
  router.n_experts = reader.size("n_routed_experts", 65536);
  router.top_k = reader.size("num_experts_per_tok", router.n_experts);
  router.renormalise = reader.flag_or("norm_topk_prob", true);
  router.sum_offset = 1e-20f;
  router.scale = static_cast<float>(reader.positive_or("routed_scaling_factor", 1.0));
  router.group_score = compute::GroupScore::kTwoLargest;
  read_groups(reader, router, "n_group");
}

void read_latent_attention(ConfigReader& reader, ModelSpec& spec) {
  AttentionSpec& a = spec.attentions.front();
  a.query_rank = reader.find("q_lora_rank") != nullptr ? reader.size("q_lora_rank", 1 << 20) : 0;
  a.latent_dim = reader.size("kv_lora_rank", 1 << 20);
  a.nope_dim = reader.size("qk_nope_head_dim", 4096);
  const int rope_dim = reader.size("qk_rope_head_dim", 4096);
  a.head_dim = a.nope_dim + rope_dim;
  a.value_dim = reader.size("v_head_dim", 4096);
  a.n_kv_heads = a.n_heads;
  a.latent_norm_eps = reader.from_gguf() ? spec.norm_eps : 1e-6f;
  if (a.latent_norm_eps != 1e-6f)
    spec.notes.emplace_back(
        "the norms of latent attention use the file's epsilon, as llama.cpp does; transformers uses 1e-6");
  a.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(a.head_dim))) * yarn_score_factor(reader);
  spec.ropes.front() = read_rope(reader, rope_dim, rope_dim);
  spec.ropes.front().interleaved = true;
}

}  // namespace colibri::model

#include "engine/model_shape.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "kv/kv_cache.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace colibri::engine {
namespace {

std::string name_of(const model::ModelSpec& spec, const model::LayerSpec& layer) {
  switch (layer.mixer) {
    case model::Mixer::kAttention: {
      const model::AttentionSpec& a = spec.attention_of(layer);
      std::string name = a.latent() ? "latent attention" : "attention";
      if (a.window > 0) name += ", window " + std::to_string(a.window);
      if (a.chunk > 0) name += ", chunks of " + std::to_string(a.chunk);
      if (a.compressor.rate > 0) name += ", one key for each " + std::to_string(a.compressor.rate) + " before";
      if (a.indexer.n_heads > 0) name += ", best " + std::to_string(a.indexer.top_k) + " keys";
      return name;
    }
    case model::Mixer::kDelta:
      return spec.delta.decay == model::DeltaDecay::kPerHead ? "gated delta rule" : "delta rule by channel";
    case model::Mixer::kMamba:
      return "Mamba-2";
    case model::Mixer::kShortConv:
      return "short convolution";
    case model::Mixer::kNone:
      break;
  }
  return "feed-forward only";
}

Json mixers_of(const model::ModelSpec& spec) {
  Json mixers{Json::Object{}};
  std::map<std::string, int64_t> counts;
  for (const model::LayerSpec& layer : spec.layers) ++counts[name_of(spec, layer)];
  for (const auto& [name, count] : counts) mixers.set(name, count);
  return mixers;
}

// Of one sequence, with float keys and values. Layers with a window stop growing.
int64_t kv_bytes_per_position(const model::ModelSpec& spec) {
  int64_t bytes = 0;
  for (const kv::KvLayer& layer : model::kv_layers(spec))
    bytes += int64_t{layer.kv_heads} * (layer.key_dim + (layer.latent ? 0 : layer.value_dim)) *
             static_cast<int64_t>(sizeof(float)) / layer.rate;
  return bytes;
}

}  // namespace

Json shape_of_model(const model::ModelSpec& spec) {
  Json json;
  json.set("layers", spec.n_layers());
  json.set("moe_layers", spec.n_moe_layers());
  json.set("hidden_size", spec.hidden_size);
  json.set("vocab_size", spec.vocab_size);
  json.set("context", spec.context);
  const model::AttentionSpec& attention = spec.attentions.front();
  json.set("heads", attention.n_heads);
  json.set("kv_heads", attention.n_kv_heads);
  json.set("head_dim", attention.head_dim);
  json.set("experts", spec.moe.router.n_experts);
  json.set("top_k", spec.moe.router.top_k);
  json.set("expert_width", spec.moe.expert_width);
  json.set("shared_width", spec.moe.shared_width);
  json.set("tied_head", spec.tied_head);
  json.set("rope_theta", spec.ropes.front().theta);
  json.set("mixers", mixers_of(spec));
  json.set("kv_bytes_per_position", kv_bytes_per_position(spec));
  const std::vector<int64_t> state = model::state_floats(spec);
  json.set("state_bytes", std::accumulate(state.begin(), state.end(), int64_t{0}) * int64_t{sizeof(float)});
  return json;
}

Json unused_tensors(const formats::TensorCatalog& catalog, const model::ModelSpec& spec) {
  std::map<std::string_view, std::pair<int64_t, int64_t>> parts;
  for (const formats::TensorInfo& tensor : catalog.tensors()) {
    const std::string_view part = model::unused_part(tensor.name, spec);
    if (part.empty()) continue;
    auto& [count, bytes] = parts[part];
    ++count;
    bytes += tensor.bytes;
  }
  if (parts.empty()) return {};
  Json json{Json::Object{}};
  for (const auto& [part, numbers] : parts)
    json.set(std::string(part), Json::Object{{"tensors", numbers.first}, {"bytes", numbers.second}});
  return json;
}

}  // namespace colibri::engine

// Stops 7 to 9 of a token's life: the router chooses experts, the store hands them out, they compute.
#include <algorithm>
#include <utility>

#include "model/decoder.h"

namespace colibri::model {

namespace {

// By descending weight, as a router chooses.
void order_choice(int32_t* ids, float* weights, int64_t n) {
  for (int64_t i = 1; i < n; ++i)
    for (int64_t j = i; j > 0 && weights[j - 1] < weights[j]; --j) {
      std::swap(ids[j - 1], ids[j]);
      std::swap(weights[j - 1], weights[j]);
    }
}

}  // namespace

// x += ffn(norm(x)), where the ffn is a dense MLP, experts, or the sum of both. True when that is done; else some
// experts are left. What they read is made from x again: the other lane has used its memory in between.
Result<bool> Decoder::feed_forward(Pass& pass, int32_t max_experts, RoutingObserver* observer) {
  compute::Backend& backend = *parts_.backend;
  const int layer = pass.layer;
  const LayerSpec& spec = layer_spec(layer);
  const LayerWeights& w = layer_weights(layer);
  const int64_t rows = pass.batch.rows();
  const Rows x = ws_.x.slice(0, rows), branch = ws_.branch.slice(0, rows);
  const Rows input = block_input(w.ffn_streams, w.ffn_norm, rows);
  if (spec.dense_width > 0 && pass.first_expert == 0) {
    mlp(w.dense, input, branch);
    if (w.dense_post_norm.weight != nullptr) norm(branch, w.dense_post_norm, branch);
  }
  if (spec.moe) {
    const bool beside = spec.dense_width > 0;
    const Rows mixed = (spec.late_moe ? ws_.late : beside ? ws_.mixed : ws_.branch).slice(0, rows);
    const compute::ExpertRange range = next_experts(pass, max_experts);
    COLIBRI_TRY(experts(layer, pass.batch, range, input, mixed, observer));
    pass.first_expert = range.end;
    if (!range.is_last(parts_.spec->moe.n_stored())) return false;
    if (beside && !spec.late_moe) backend.add(branch, mixed);
  }
  add_to_residual(w.ffn_post_norm, rows);
  if (layer > 0 && layer_spec(layer - 1).late_moe) backend.add(x, ws_.late.slice(0, rows));
  if (w.scale != nullptr) backend.scale(x, *w.scale);
  return true;
}

compute::ExpertRange Decoder::next_experts(const Pass& pass, int32_t max_experts) const {
  if (max_experts >= parts_.spec->moe.n_stored() - pass.first_expert) return {pass.first_expert};
  COLIBRI_DCHECK(limits_.max_apart_rows == 0);  // all in memory
  return {pass.first_expert, pass.first_expert + max_experts};
}

// out = sum of the chosen experts (+ the shared expert), or what the range adds to it.
Status Decoder::experts(int layer, const Batch& batch, compute::ExpertRange range, Rows x, Rows out,
                        RoutingObserver* observer) {
  const LayerSpec& spec = layer_spec(layer);
  const MoeWeights& w = layer_weights(layer).moe;
  const int64_t rows = x.rows;
  const int top_k = parts_.spec->moe.router.top_k;
  const bool begins = range.first == 0, few = rows <= limits_.max_apart_rows;
  if (begins) route(layer, batch, x);
  COLIBRI_TRY(check_abandoned());  // nobody may see the choices of work that was skipped
  // Where experts come in parts they are all in memory: what is asked for, and counted, is asked for once.
  store::ExpertLeases leases =
      parts_.experts->acquire(moe_index(layer), begins ? stored_ids(rows) : std::span<const int32_t>(),
                              few ? store::ArrivalOrder::kAny : store::ArrivalOrder::kAscending);
  if (begins && observer != nullptr)
    observer->on_route(spec.number, ws_.expert_ids, ws_.expert_weights, rows, top_k, leases.missing());
  if (few && limits_.guesses_per_row > 0) guess_experts(layer, rows);
  const Rows own = ws_.expert_input.slice(0, parts_.spec->moe.own_norms ? rows : 0);
  if (own.rows > 0) norm(ws_.x.slice(0, rows), w.norm, own);
  COLIBRI_TRY(run_experts(leases, range, own.rows > 0 ? own : x, out));
  if (!range.is_last(parts_.spec->moe.n_stored())) return {};
  if (parts_.spec->moe.shared_width > 0) shared_expert(w, x, out);
  if (w.post_norm.weight != nullptr) norm(out, w.post_norm, out);
  return {};
}

// What the rows chose, without the experts that give back their input: those have no weights.
std::span<const int32_t> Decoder::stored_ids(int64_t rows) {
  const MoeSpec& moe = parts_.spec->moe;
  const std::span<const int32_t> chosen(ws_.expert_ids, static_cast<size_t>(rows * moe.router.top_k));
  if (moe.identity_experts == 0) return chosen;
  const int32_t* end =
      std::copy_if(chosen.begin(), chosen.end(), ws_.stored_ids, [&moe](int32_t id) { return id < moe.n_stored(); });
  return {ws_.stored_ids, end};
}

// Ids and weights of the rows' experts, into the workspace.
void Decoder::route(int layer, const Batch& batch, Rows x) {
  compute::Backend& backend = *parts_.backend;
  const MoeWeights& w = layer_weights(layer).moe;
  const int64_t rows = x.rows, top_k = parts_.spec->moe.router.top_k;
  const Rows logits = ws_.router_logits.slice(0, rows);
  Rows input = x;
  if (w.router_norm != nullptr) {
    input = ws_.expert_input.slice(0, rows);
    backend.rms_norm(ws_.x.slice(0, rows), w.router_norm, parts_.spec->norm_eps, input);
  }
  backend.matmul(input, w.router, w.router_bias, logits);
  if (w.token_experts == nullptr) return backend.route(logits, router(layer), ws_.expert_ids, ws_.expert_weights);
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(w.token_experts + batch.tokens[static_cast<size_t>(r)] * top_k, top_k, ws_.expert_ids + r * top_k);
  backend.weigh(logits, router(layer), ws_.expert_ids, ws_.expert_weights);
  for (int64_t r = 0; r < rows; ++r) order_choice(ws_.expert_ids + r * top_k, ws_.expert_weights + r * top_k, top_k);
}

// Experts that are in memory compute while the others arrive.
Status Decoder::run_experts(store::ExpertLeases& leases, compute::ExpertRange range, Rows x, Rows out) {
  compute::Backend& backend = *parts_.backend;
  const MoeSpec& moe = parts_.spec->moe;
  compute::ExpertParams params;
  params.top_k = moe.router.top_k;
  params.activation = parts_.spec->activation;
  params.weight_on_input = moe.weight_on_input;
  params.n_identity = moe.identity_experts;
  params.only = range;
  if (leases.all_there()) {
    backend.experts(x, ws_.expert_ids, ws_.expert_weights, params, leases.by_expert(), out);
    return {};
  }
  backend.begin_experts(x, ws_.expert_ids, ws_.expert_weights, params, leases.by_expert(), out);
  for (;;) {
    COLIBRI_ASSIGN(const std::span<const int32_t> ready, leases.next());
    if (ready.empty()) break;
    backend.add_experts(ready);
  }
  backend.end_experts();
  return {};
}

// The next router on the present state tells most of what the next layer will want.
void Decoder::guess_experts(int layer, int64_t rows) {
  const int next = layer + 1;
  if (next >= parts_.spec->n_layers() || !layer_spec(next).moe || layer_spec(next).hash_moe) return;
  compute::Backend& backend = *parts_.backend;
  const LayerWeights& w = layer_weights(next);
  const Rows x = ws_.x.slice(0, rows), guess = ws_.guess.slice(0, rows), logits = ws_.router_logits.slice(0, rows);
  if (w.moe.router_norm != nullptr)
    backend.rms_norm(x, w.moe.router_norm, parts_.spec->norm_eps, guess);
  else
    norm(x, w.ffn_norm, guess);
  backend.matmul(guess, w.moe.router, w.moe.router_bias, logits);
  backend.route(logits, router(next), ws_.guessed_ids, ws_.guessed_weights);
  for (int64_t r = 0; r < rows; ++r)
    parts_.experts->expect(moe_index(next),
                           {ws_.guessed_ids + r * router(next).top_k, static_cast<size_t>(limits_.guesses_per_row)});
}

// out += shared(x), times its gate where it has one
void Decoder::shared_expert(const MoeWeights& w, Rows x, Rows out) {
  compute::Backend& backend = *parts_.backend;
  const Rows shared = ws_.shared.slice(0, x.rows);
  mlp(w.shared, x, shared);
  if (parts_.spec->moe.shared_gate) {
    const Rows gate = ws_.shared_gate.slice(0, x.rows);
    backend.matmul(x, w.shared_router, nullptr, gate);
    backend.scale_by_sigmoid(shared, gate);
  }
  backend.add(out, shared);
}

// out = down(activation(gate x, up x))
void Decoder::mlp(const ExpertWeights& w, Rows x, Rows out) {
  compute::Backend& backend = *parts_.backend;
  const Rows gate = ws_.mlp_gate.rows(x.rows, w.up.n), up = ws_.mlp_up.rows(x.rows, w.up.n);
  if (w.gate.n > 0) {
    const compute::Product both[] = {{&w.gate, nullptr, gate}, {&w.up, nullptr, up}};
    backend.multiply(x, both);
    backend.activate(gate, up, parts_.spec->activation, gate);
  } else {
    backend.matmul(x, w.up, nullptr, gate);
    backend.activate(gate, {}, parts_.spec->activation, gate);
  }
  backend.matmul(gate, w.down, nullptr, out);
}

}  // namespace colibri::model

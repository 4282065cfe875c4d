// Stops 7 to 9 of a token's life: the router chooses experts, the store hands them out, they compute.
#include "model/decoder.h"

namespace colibri::model {

// x += ffn(norm(x))
Status Decoder::feed_forward(int layer, int64_t rows, RoutingObserver* observer) {
  const LayerWeights& w = parts_.weights->layers[static_cast<size_t>(layer)];
  const Rows x = ws_.x.slice(0, rows), normed = ws_.normed.slice(0, rows), branch = ws_.branch.slice(0, rows);
  parts_.backend->rms_norm(x, w.ffn_norm, parts_.spec->norm_eps, normed);
  if (parts_.spec->layers[static_cast<size_t>(layer)].moe) {
    COLIBRI_TRY(mix_experts(layer, rows, observer));
  } else {
    mlp(w.dense, normed, branch);
    parts_.backend->add(x, branch);
  }
  return {};
}

// x += sum of the chosen experts (+ the shared expert). The experts' weighted sum and the shared expert are two
// additions.
Status Decoder::mix_experts(int layer, int64_t rows, RoutingObserver* observer) {
  compute::Backend& backend = *parts_.backend;
  const MoeSpec& moe = parts_.spec->moe;
  const LayerWeights& w = parts_.weights->layers[static_cast<size_t>(layer)];
  const Rows x = ws_.x.slice(0, rows), normed = ws_.normed.slice(0, rows), branch = ws_.branch.slice(0, rows);
  const Rows router_logits = ws_.router_logits.slice(0, rows);
  const int top_k = moe.router.top_k;

  backend.matmul(normed, w.router, nullptr, router_logits);
  backend.route(router_logits, moe.router, ws_.expert_ids, ws_.expert_weights);
  COLIBRI_TRY(check_abandoned());  // nobody may see the choices of work that was skipped
  const std::span<const int32_t> ids(ws_.expert_ids, static_cast<size_t>(rows * top_k));
  const bool few = rows <= limits_.max_apart_rows;
  store::ExpertLeases leases = parts_.experts->acquire(
      moe_index_[static_cast<size_t>(layer)], ids, few ? store::ArrivalOrder::kAny : store::ArrivalOrder::kAscending);
  if (observer != nullptr) observer->on_route(layer, ws_.expert_ids, ws_.expert_weights, rows, top_k, leases.missing());
  if (few && limits_.guesses_per_row > 0) guess_experts(layer, rows);
  COLIBRI_TRY(run_experts(leases, normed, branch));
  backend.add(x, branch);
  if (moe.shared_width > 0) shared_expert(w, rows);
  return {};
}

// Experts that are in memory compute while the others arrive.
Status Decoder::run_experts(store::ExpertLeases& leases, Rows normed, Rows branch) {
  compute::Backend& backend = *parts_.backend;
  const compute::ExpertParams params{parts_.spec->moe.router.top_k};
  if (leases.all_there()) {
    backend.experts(normed, ws_.expert_ids, ws_.expert_weights, params, leases.by_expert(), branch);
    return {};
  }
  backend.begin_experts(normed, ws_.expert_ids, ws_.expert_weights, params, leases.by_expert(), branch);
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
  if (next >= parts_.spec->n_layers() || !parts_.spec->layers[static_cast<size_t>(next)].moe) return;
  compute::Backend& backend = *parts_.backend;
  const compute::RouterParams& router = parts_.spec->moe.router;
  const LayerWeights& w = parts_.weights->layers[static_cast<size_t>(next)];
  const Rows guess = ws_.branch.slice(0, rows), logits = ws_.router_logits.slice(0, rows);
  backend.rms_norm(ws_.x.slice(0, rows), w.ffn_norm, parts_.spec->norm_eps, guess);
  backend.matmul(guess, w.router, nullptr, logits);
  backend.route(logits, router, ws_.guessed_ids, ws_.guessed_weights);
  for (int64_t r = 0; r < rows; ++r)
    parts_.experts->expect(moe_index_[static_cast<size_t>(next)],
                           {ws_.guessed_ids + r * router.top_k, static_cast<size_t>(limits_.guesses_per_row)});
}

void Decoder::shared_expert(const LayerWeights& w, int64_t rows) {
  const Rows x = ws_.x.slice(0, rows), normed = ws_.normed.slice(0, rows), branch = ws_.branch.slice(0, rows);
  mlp(w.shared, normed, branch);
  if (parts_.spec->moe.shared_gate) {
    const Rows gate = ws_.shared_gate.slice(0, rows);
    parts_.backend->matmul(normed, w.shared_router, nullptr, gate);
    parts_.backend->scale_by_sigmoid(branch, gate);
  }
  parts_.backend->add(x, branch);
}

// out = down(silu(gate x) * up x)
void Decoder::mlp(const ExpertWeights& w, Rows x, Rows out) {
  const Rows gate{ws_.gate.data, x.rows, w.gate.n};
  const Rows up{ws_.up.data, x.rows, w.up.n};
  const compute::Product both[] = {{&w.gate, nullptr, gate}, {&w.up, nullptr, up}};
  parts_.backend->multiply(x, both);
  parts_.backend->activate(gate, up, {}, gate);
  parts_.backend->matmul(gate, w.down, nullptr, out);
}

}  // namespace colibri::model

// The router: ids and weights of rows of logits, 16 rows at a time, over the F32x16 included before. A lane is a row,
// so no step depends on the other rows of a call.
//
// Experts are walked in ascending id and inserted into the sorted best so far when they rank strictly above: equal keys
// keep the lower id first. A key of NaN ranks below every number; an empty slot holds one. Any number of choices works:
// a walk collects kRouteSlots of them, and the next one continues behind the last.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"

namespace colibri::compute {
namespace {

constexpr int kRouteSlots = 32;

/// Up to 16 rows on their way through the router.
struct RouteBlock {
  const RouterParams* params;
  const float* rows[16];  ///< those beyond n_rows repeat the last
  int64_t n_rows;
  int32_t* ids;           ///< of the first row
  const int32_t* chosen;  ///< the same, or those that are given
  float* weights;
  bool by_logit;                           ///< the key is the logit itself
  F32x16 largest;                          ///< softmax: the largest logit; by logit, the key of the first choice
  F32x16 total;                            ///< softmax, not by logit: the sum of all terms
  F32x16 chosen_total;                     ///< the sum of the chosen terms
  F32x16 group_penalty[kMaxRouterGroups];  ///< added to the keys of a group: 0, or NaN where it drops out
};

/// The best experts so far, best first; later the keys make way for the weights. Ids are floats, which hold them
/// exactly; -1 where none came.
struct RouteSlots {
  F32x16 keys[kRouteSlots], ids[kRouteSlots];
};

COLIBRI_INLINE F32x16 not_a_number() { return broadcast(__builtin_nanf("")); }
COLIBRI_INLINE F32x16 minus_infinity() { return broadcast(-__builtin_inff()); }
COLIBRI_INLINE Lanes is_number(F32x16 x) { return above(x, not_a_number()); }

/// Calls body(expert, logits) for experts begin to end, ascending.
template <typename Body>
COLIBRI_INLINE void for_each_expert(const float* const* rows, int64_t begin, int64_t end, Body body) {
  int64_t e = begin;
  for (; e + 4 <= end; e += 4) {
    F32x16 column[4];
    load_columns(rows, e, column);
    COLIBRI_UNROLL
    for (int i = 0; i < 4; ++i) body(e + i, column[i]);
  }
  for (; e < end; ++e) {
    float lane[16];
    for (int r = 0; r < 16; ++r) lane[r] = rows[r][e];
    body(e, load(lane));
  }
}

/// What a logit weighs before division: for softmax e^(logit - largest), else the score. NaN weighs nothing. The
/// largest logits weigh 1 also where they are infinite; for the square root, +infinity counts as the largest float.
F32x16 term_of(RouterKind kind, F32x16 logit, F32x16 largest) {
  F32x16 term;
  if (kind == RouterKind::kSoftmax) {
    term = select_less(logit, largest, exponential(sub(logit, largest)), broadcast(1.0f));
  } else if (kind == RouterKind::kSigmoid) {
    term = div(broadcast(1.0f), one_plus_exp_minus(logit));
  } else {
    term = square_root(softplus(minimum(logit, broadcast(__FLT_MAX__))));
  }
  return select(is_number(logit), term, zero());
}

/// What experts are compared by, where that is not the logit.
F32x16 score_key(const RouteBlock& b, int64_t expert, F32x16 logit) {
  const RouterParams& p = *b.params;
  F32x16 key = term_of(p.kind, logit, b.largest);
  if (p.kind == RouterKind::kSoftmax) key = div(key, b.total);
  if (p.bias != nullptr) key = add(key, broadcast(p.bias[expert]));
  return select(is_number(logit), key, not_a_number());
}

COLIBRI_INLINE F32x16 key_of(const RouteBlock& b, int64_t expert, F32x16 logit) {
  return b.by_logit ? logit : score_key(b, expert, logit);
}

F32x16 largest_logit(const RouteBlock& b) {
  F32x16 largest = minus_infinity();
  for_each_expert(b.rows, 0, b.params->n_experts,
                  [&](int64_t, F32x16 logit) { largest = maximum(logit, largest); });  // this order passes over NaN
  return largest;
}
F32x16 total_of_terms(const RouteBlock& b) {
  F32x16 total = zero();
  for_each_expert(b.rows, 0, b.params->n_experts,
                  [&](int64_t, F32x16 logit) { total = add(total, term_of(RouterKind::kSoftmax, logit, b.largest)); });
  return total;
}

F32x16 group_score(const RouteBlock& b, int64_t group, int64_t size) {
  F32x16 first = minus_infinity(), second = first;
  for_each_expert(b.rows, group * size, (group + 1) * size, [&](int64_t e, F32x16 logit) {
    F32x16 key = key_of(b, e, logit);
    key = select(is_number(key), key, minus_infinity());
    second = maximum(minimum(first, key), second);
    first = maximum(first, key);
  });
  return b.params->group_score == GroupScore::kTwoLargest ? add(first, second) : first;
}

/// A group stays when fewer than top_groups rank before it: those above it and the equal ones of lower number.
void drop_groups(RouteBlock& b) {
  const int groups = b.params->n_groups;
  F32x16 scores[kMaxRouterGroups];
  for (int g = 0; g < groups; ++g) scores[g] = group_score(b, g, b.params->n_experts / groups);
  for (int g = 0; g < groups; ++g) {
    F32x16 before = zero();
    const F32x16 one_more = broadcast(1.0f);
    for (int h = 0; h < g; ++h) before = add(before, select(above(scores[g], scores[h]), zero(), one_more));
    for (int h = g + 1; h < groups; ++h) before = add(before, select(above(scores[h], scores[g]), one_more, zero()));
    b.group_penalty[g] =
        select_less(before, broadcast(static_cast<float>(b.params->top_groups)), zero(), not_a_number());
  }
}

/// Puts an expert before the first slot that it ranks above; the slots from there move down by one.
void insert(F32x16 key, F32x16 id, int64_t slots, RouteSlots& best) {
  F32x16 moving_key = key, moving_id = id;
  F32x16 *keys = best.keys, *ids = best.ids;
  for (int64_t j = 0; j < slots; ++j) {
    const Lanes better = above(key, keys[j]);
    const F32x16 old_key = keys[j], old_id = ids[j];
    keys[j] = select(better, moving_key, old_key);
    ids[j] = select(better, moving_id, old_id);
    moving_key = select(better, old_key, moving_key);
    moving_id = select(better, old_id, moving_id);
  }
}

/// Few choices by logit, kept in registers. Says false when -infinity or NaN would be among some row's choices, which
/// this leaves out.
template <int kSlots>
bool collect_few(const RouteBlock& b, RouteSlots& best) {
  F32x16 keys[kSlots], ids[kSlots], id = zero();
  for (int j = 0; j < kSlots; ++j) {
    keys[j] = minus_infinity();
    ids[j] = broadcast(-1.0f);
  }
  for_each_expert(
      b.rows, 0, b.params->n_experts, [&](int64_t, F32x16 logit) __attribute__((always_inline)) {
        COLIBRI_UNROLL
        for (int j = kSlots - 1; j > 0; --j) {
          ids[j] = select_less(keys[j], logit, select_less(keys[j - 1], logit, ids[j - 1], id), ids[j]);
          keys[j] = maximum(minimum(keys[j - 1], logit), keys[j]);
        }
        ids[0] = select_less(keys[0], logit, id, ids[0]);
        keys[0] = maximum(logit, keys[0]);
        id = add(id, broadcast(1.0f));
      });
  for (int j = 0; j < kSlots; ++j) {
    best.keys[j] = keys[j];
    best.ids[j] = ids[j];
  }
  return !any(above(zero(), ids[kSlots - 1]));
}

/// Any rule. With `last`, only experts that rank behind its expert, which an earlier walk found.
struct RouteBound {
  F32x16 key, id;
};
void collect(const RouteBlock& b, int64_t slots, const RouteBound* last, RouteSlots& best) {
  for (int64_t j = 0; j < slots; ++j) {
    best.keys[j] = not_a_number();
    best.ids[j] = broadcast(-1.0f);
  }
  const int64_t groups = b.params->n_groups, size = b.params->n_experts / groups;
  const bool drops = b.params->top_groups < groups;
  F32x16 id = zero();
  for (int64_t g = 0; g < groups; ++g) {
    const F32x16 penalty = drops ? b.group_penalty[g] : zero();
    for_each_expert(
        b.rows, g * size, (g + 1) * size, [&](int64_t e, F32x16 logit) __attribute__((always_inline)) {
          F32x16 key = add(key_of(b, e, logit), penalty);
          if (last != nullptr) {
            const F32x16 if_equal = select(above(id, last->id), key, not_a_number());
            key = select(above(last->key, key), key, select(above(key, last->key), not_a_number(), if_equal));
          }
          if (any(above(key, best.keys[slots - 1]))) insert(key, id, slots, best);
          id = add(id, broadcast(1.0f));
        });
  }
}

F32x16 logits_of(const RouteBlock& b, F32x16 ids) {
  float id[16], logit[16];
  store(id, maximum(ids, zero()));  // an empty slot reads something, and its key says that it counts nothing
  for (int r = 0; r < 16; ++r) logit[r] = b.rows[r][static_cast<int32_t>(id[r])];
  return load(logit);
}

/// Terms of the chosen, in best.keys. Who was not chosen by a number weighs nothing.
void weigh_terms(RouteBlock& b, int64_t slots, RouteSlots& best) {
  for (int64_t j = 0; j < slots; ++j) {
    const F32x16 logit = b.by_logit ? best.keys[j] : logits_of(b, best.ids[j]);
    best.keys[j] = select(is_number(best.keys[j]), term_of(b.params->kind, logit, b.largest), zero());
    b.chosen_total = add(b.chosen_total, best.keys[j]);
  }
}

/// What the sparse mixer adds up: nothing for a logit that is far from the largest.
COLIBRI_INLINE F32x16 near_term(F32x16 logit, F32x16 largest, float jitter) {
  const F32x16 size = maximum(maximum(logit, sub(zero(), logit)), largest);
  const F32x16 far = div(sub(largest, logit), size);
  return select_less(broadcast(2 * jitter), far, zero(), term_of(RouterKind::kSoftmax, logit, largest));
}

/// The sparse mixer: every choice by itself, among those that were not chosen before it.
void weigh_sparsely(const RouteBlock& b, int64_t slots, RouteSlots& best) {
  for (int64_t j = 0; j < slots; ++j) {
    F32x16 total = zero(), id = zero();
    for_each_expert(b.rows, 0, b.params->n_experts, [&](int64_t, F32x16 logit) {
      F32x16 term = near_term(logit, best.keys[j], b.params->jitter);
      for (int64_t i = 0; i < j; ++i) {
        const F32x16 other = select(above(best.ids[i], id), term, zero());
        term = select(above(id, best.ids[i]), term, other);
      }
      total = add(total, term);
      id = add(id, broadcast(1.0f));
    });
    best.keys[j] = select(is_number(best.keys[j]), div(broadcast(1.0f), total), zero());
  }
}

COLIBRI_INLINE F32x16 softmax_total(const RouteBlock& b) { return b.by_logit ? total_of_terms(b) : b.total; }
COLIBRI_INLINE F32x16 divisor(const RouteBlock& b) {
  const RouterParams& p = *b.params;
  const bool softmax = p.kind == RouterKind::kSoftmax;
  if (!p.renormalise) return softmax ? softmax_total(b) : broadcast(1.0f);
  const F32x16 sum = add(b.chosen_total, broadcast(p.sum_offset));
  if (!(p.sum_floor > 0)) return sum;
  const F32x16 least = broadcast(p.sum_floor);
  return maximum(sum, softmax ? mul(least, softmax_total(b)) : least);
}
COLIBRI_INLINE F32x16 weight_of(F32x16 term, F32x16 by, float scale) {
  return mul(select_less(zero(), by, div(term, by), zero()), broadcast(scale));
}

bool contains(const int32_t* ids, int64_t n, int32_t id) {
  for (int64_t j = 0; j < n; ++j)
    if (ids[j] == id) return true;
  return false;
}

/// Slots that stayed empty, because fewer experts have a number for a key, take the lowest ids that are left.
void fill_empty(int32_t* ids, int64_t n) {
  int32_t next = 0;
  for (int64_t j = 0; j < n; ++j) {
    if (ids[j] >= 0) continue;
    while (contains(ids, j, next)) ++next;
    ids[j] = next++;
  }
}

/// Slots of one walk, to places first .. first + slots - 1 of each row.
void write_slots(const RouteBlock& b, int64_t first, int64_t slots, const RouteSlots& best) {
  const int64_t k = b.params->top_k;
  int32_t id[16];
  float weight[16];
  for (int64_t j = 0; j < slots; ++j) {
    store_integers(id, best.ids[j]);
    store(weight, best.keys[j]);
    int32_t* to_id = b.ids + first + j;
    float* to_weight = b.weights + first + j;
    for (int64_t r = 0; r < b.n_rows; ++r, to_id += k, to_weight += k) {
      *to_id = id[r];
      *to_weight = weight[r];
    }
  }
  if (!any(above(zero(), best.ids[slots - 1]))) return;  // the last slot is the first one to stay empty
  for (int64_t r = 0; r < b.n_rows; ++r) fill_empty(b.ids + r * k, first + slots);
}

void scale_by_expert(const RouteBlock& b) {
  if (b.params->expert_scale == nullptr) return;
  const int64_t n = b.n_rows * b.params->top_k;
  for (int64_t i = 0; i < n; ++i) b.weights[i] *= b.params->expert_scale[b.chosen[i]];
}

/// All of it when one walk holds all choices.
void route_at_once(RouteBlock& b) {
  const int64_t k = b.params->top_k;
  const bool plain = b.by_logit && b.params->n_groups == 1;
  RouteSlots best;
  const bool found = plain && ((k == 1 && collect_few<1>(b, best)) || (k == 2 && collect_few<2>(b, best)));
  if (!found) collect(b, k, nullptr, best);
  if (b.by_logit) b.largest = best.keys[0];
  if (b.params->kind == RouterKind::kSparseMixer) {
    weigh_sparsely(b, k, best);
  } else {
    weigh_terms(b, k, best);
  }
  const F32x16 by = divisor(b);
  for (int64_t j = 0; j < k; ++j) best.keys[j] = weight_of(best.keys[j], by, b.params->scale);
  write_slots(b, 0, k, best);
  scale_by_expert(b);
}

void divide_weights(const RouteBlock& b) {
  const int64_t k = b.params->top_k;
  float by[16];
  store(by, divisor(b));
  for (int64_t r = 0; r < b.n_rows; ++r) {
    float* weights = b.weights + r * k;
    for_each_run(k, [&](int64_t i, int64_t lanes) {
      store_run(weights + i, lanes, weight_of(load_run(weights + i, lanes), broadcast(by[r]), b.params->scale));
    });
  }
  scale_by_expert(b);
}

/// Walk after walk; the terms are divided when their sum is known.
void route_in_parts(RouteBlock& b) {
  const int64_t k = b.params->top_k;
  RouteSlots best;
  RouteBound last;
  for (int64_t first = 0; first < k; first += kRouteSlots) {
    const int64_t slots = k - first < kRouteSlots ? k - first : kRouteSlots;
    collect(b, slots, first > 0 ? &last : nullptr, best);
    last = {best.keys[slots - 1], best.ids[slots - 1]};
    if (first == 0 && b.by_logit) b.largest = best.keys[0];
    weigh_terms(b, slots, best);
    write_slots(b, first, slots, best);
  }
  divide_weights(b);
}

/// Experts that nobody chooses here.
void weigh_given(RouteBlock& b) {
  const int64_t k = b.params->top_k;
  float lane[16];
  for (int64_t j = 0; j < k; ++j) {
    for (int64_t r = 0; r < 16; ++r) lane[r] = b.rows[r][b.chosen[(r < b.n_rows ? r : b.n_rows - 1) * k + j]];
    const F32x16 term = term_of(b.params->kind, load(lane), b.largest);
    b.chosen_total = add(b.chosen_total, term);
    store(lane, term);
    for (int64_t r = 0; r < b.n_rows; ++r) b.weights[r * k + j] = lane[r];
  }
  divide_weights(b);
}

void route(const RouteJob* job) {
  const RouterParams& p = job->params;
  RouteBlock b;
  b.params = &p;
  b.by_logit = job->given == nullptr && p.bias == nullptr && (p.n_groups == 1 || p.group_score == GroupScore::kLargest);
  for (int64_t row = 0; row < job->rows; row += 16) {
    b.n_rows = job->rows - row < 16 ? job->rows - row : 16;
    for (int64_t r = 0; r < 16; ++r) b.rows[r] = job->logits + (row + (r < b.n_rows ? r : b.n_rows - 1)) * p.n_experts;
    b.ids = job->given == nullptr ? job->ids + row * p.top_k : nullptr;
    b.chosen = job->given != nullptr ? job->given + row * p.top_k : b.ids;
    b.weights = job->weights + row * p.top_k;
    b.chosen_total = zero();
    if (p.kind == RouterKind::kSoftmax && !b.by_logit) {
      b.largest = largest_logit(b);
      b.total = total_of_terms(b);
    }
    if (job->given != nullptr) {
      weigh_given(b);
      continue;
    }
    if (p.top_groups < p.n_groups) drop_groups(b);
    if (p.top_k <= kRouteSlots) {
      route_at_once(b);
    } else {
      route_in_parts(b);
    }
  }
}

}  // namespace
}  // namespace colibri::compute

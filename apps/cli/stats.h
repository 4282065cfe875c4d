// The statistics object that --stats, --json and bench print.
#pragma once

#include <string>

#include "common/json.h"

namespace colibri::cli {

using namespace common;

/// What the library says about a sequence, with "model" in front and the keys in their documented order.
Outcome<json::object> sequence_stats(const api::Engine& engine, const api::Sequence& sequence,
                                     const std::string& model);

/// Adds the counts of `more` to `sum`, number by number; both have the same form. For "activations" and experts'
/// counts.
void add_counts(json::value& sum, const json::value& more);

/// The experts object with hit_rate and bytes_per_token recomputed for `tokens`.
void refresh_expert_rates(json::object& experts, double tokens);

}  // namespace colibri::cli

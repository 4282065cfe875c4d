// Batch: the rows of one engine step. Rows of one sequence stand together, at consecutive positions.
#pragma once

#include <cstdint>
#include <span>

#include "base/token_ids.h"
#include "tensor/tensor.h"

namespace colibri::model {

/// Rows [first_row, first_row + n_rows) of a batch: one sequence, from `first_position` on.
struct BatchSegment {
  int slot = 0;  ///< of the KV cache
  int64_t first_row = 0;
  int64_t n_rows = 0;
  int64_t first_position = 0;
  bool long_prompt = false;  ///< RoPE with the long factors, where the model has them (ModelSpec::takes_long_factors)
};

/// Two passes can be under way at once: tokens that sequences wait for, and prompts, which stand back after any piece.
enum class Lane : uint8_t { kDecode, kPrefill };

/// What a pass does between two points at which it may stand back.
enum class Piece : uint8_t {
  kMixer,
  kDense,    ///< a feed-forward without experts
  kExperts,  ///< one with experts, or a part of them
};
constexpr size_t kPieces = 3;

struct Batch {
  std::span<const TokenId> tokens;     ///< [rows]
  std::span<const int32_t> positions;  ///< [rows]
  std::span<const BatchSegment> segments;

  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

/// Scores of the next token, [rows, vocab].
using Logits = Rows;

/// Sees every routing decision. Called in layer order, on the engine's thread.
class RoutingObserver {
 public:
  virtual ~RoutingObserver() = default;
  /// ids, weights [batch rows, top_k], in the order of choice (compute/backend.h), valid until the layer is done;
  /// `layer` counts all decoder layers. `missing`: the chosen experts that were not in memory, ascending.
  virtual void on_route(int layer, const int32_t* ids, const float* weights, int64_t rows, int top_k,
                        std::span<const int32_t> missing) = 0;
};

}  // namespace colibri::model

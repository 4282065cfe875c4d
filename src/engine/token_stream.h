// TokenStream: the bounded queue between the engine's thread and whoever reads one sequence.
//
// The engine never waits for a reader: before it computes a sequence's next token it asks for room, and a sequence
// without room sits out the step. Events are copied into and out of places that keep their strings' memory, so a stream
// allocates only when a text is longer than any before. Thread-safety: one producer, one consumer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token_ids.h"
#include "sampling/logprobs.h"

namespace colibri::engine {

enum class EventKind : uint8_t { kToken, kEnd, kProgress, kPromptToken };

struct TokenEvent {
  EventKind kind = EventKind::kToken;
  TokenId token = -1;
  std::string text;                     ///< whole characters that became certain
  int64_t prompt_done = 0;              ///< kProgress: prompt tokens processed
  const char* finish_reason = "";       ///< kEnd: "stop", "length", "cancelled", "error"
  ErrorCode code = ErrorCode::kFailed;  ///< kEnd with "error" or "cancelled"
  std::string error;                    ///< kEnd with "error"
  double seconds = 0;                   ///< since submission
  int64_t prompt_cached = 0;
  float logprob = kNoLogprob;
  std::vector<sampling::TokenLogprob> top;  ///< most probable first

  static constexpr float kNoLogprob = std::numeric_limits<float>::quiet_NaN();
};

class TokenStream {
 public:
  /// `top`: most probable tokens that an event may carry.
  explicit TokenStream(size_t capacity, int top = 0);

  /// Producer: whether two more events (a token and the end) fit, and `more`.
  bool has_room(size_t more = 0) const;
  /// Producer. REQUIRES: room; only kEnd may use the last place.
  void push(const TokenEvent& event);
  /// Consumer: the next event into `event`; false when none came within timeout_ms (-1: waits for ever).
  bool pop(int timeout_ms, TokenEvent& event);
  /// Called after each pop, so that the engine can resume a sequence that sat out. Set once before use.
  void on_pop(std::function<void()> callback) { on_pop_ = std::move(callback); }
  /// Called after a push into an empty stream, on the producer's thread. Once this has returned no earlier callback
  /// runs any more, so setting an empty one ends them.
  void on_arrival(std::function<void()> callback);

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<TokenEvent> ring_;
  size_t head_ = 0, size_ = 0;
  std::function<void()> on_pop_;
  std::mutex arrival_mutex_;  // held while on_arrival_ runs
  std::function<void()> on_arrival_;
};

}  // namespace colibri::engine

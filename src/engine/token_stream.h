// TokenStream: the bounded queue between the engine's thread and whoever reads one sequence.
//
// The engine never waits for a reader: before it computes a sequence's next token it asks for room, and a sequence
// without room sits out the step. Events are copied into and out of places that keep their strings' memory, so a stream
// allocates only when a text is longer than any before. Thread-safety: one producer, one consumer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token_ids.h"

namespace colibri::engine {

enum class EventKind : uint8_t { kToken, kEnd, kProgress };

struct TokenEvent {
  EventKind kind = EventKind::kToken;
  TokenId token = -1;
  std::string text;                     ///< whole characters that became certain
  int64_t prompt_done = 0;              ///< kProgress: prompt tokens processed
  const char* finish_reason = "";       ///< kEnd: "stop", "length", "cancelled", "error"
  ErrorCode code = ErrorCode::kFailed;  ///< kEnd with "error" or "cancelled"
  std::string error;                    ///< kEnd with "error"
  double seconds = 0;                   ///< since submission
};

class TokenStream {
 public:
  explicit TokenStream(size_t capacity);

  /// Producer: whether two more events (a token and the end) fit.
  bool has_room() const;
  /// Producer. REQUIRES: room; only kEnd may use the last place.
  void push(const TokenEvent& event);
  /// Consumer: the next event into `event`; false when none came within timeout_ms (-1: waits for ever).
  bool pop(int timeout_ms, TokenEvent& event);
  /// Called after each pop, so that the engine can resume a sequence that sat out. Set once before use.
  void on_pop(std::function<void()> callback) { on_pop_ = std::move(callback); }

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<TokenEvent> ring_;
  size_t head_ = 0, size_ = 0;
  std::function<void()> on_pop_;
};

}  // namespace colibri::engine

// Sequence: one request on its way through the engine: prompt, tokens so far, sampler, text, events, statistics.
//
// Shared by the engine's thread and the caller's handle. Thread-safety: `stream` and `cancelled` are for both;
// everything under "engine's thread" belongs to that thread until the END event has been popped.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/token_ids.h"
#include "engine/request.h"
#include "engine/statistics.h"
#include "engine/token_stream.h"
#include "sampling/constraint.h"
#include "sampling/sampler.h"
#include "text/detokenizer.h"

namespace colibri::engine {

/// Receives what evaluate() reports, on the engine's thread. false stops.
class EvaluationSink {
 public:
  virtual ~EvaluationSink() = default;
  virtual bool wants_logits() const = 0;
  /// Asked often while the model computes, from several threads.
  virtual bool wants_stop() const { return false; }
  /// logits [n, vocab] of positions first ...
  virtual bool on_logits(int64_t first, int64_t n, const float* logits, int vocab) = 0;
  /// ids, weights [n, top_k] of decoder layer `layer`.
  virtual bool on_routing(int layer, int64_t first, int64_t n, const int32_t* ids, const float* weights, int top_k) = 0;
};

class Sequence {
 public:
  static constexpr size_t kStreamCapacity = 512;

  explicit Sequence(Request r)
      : request(std::move(r)),
        tokens(request.prompt),
        stream(kStreamCapacity + (request.echo ? request.prompt.size() : 0), std::max(0, request.logprobs)) {}

  const Request request;
  std::atomic<bool> cancelled{false};

  // Engine's thread.
  TokenIds tokens;                 ///< prompt and answer
  int64_t n_computed = 0;          ///< tokens whose keys and values are in the cache
  int64_t n_reported = 0;          ///< positions whose logits an evaluation has seen
  int64_t limit = 0;               ///< tokens at which the sequence ends with "length"
  bool long_prompt = false;        ///< RoPE with the long factors, if the model has them
  int slot = -1;                   ///< of the KV cache; -1: not running
  double due_seconds = 0;          ///< in whose order prompts are computed (scheduler.h), of Clock
  bool started = false;            ///< it has got a slot, and the caller knows
  int64_t n_cached = 0;            ///< prompt tokens that an earlier sequence had computed
  int64_t next_cut = 0;            ///< a prefill pass ends here, to keep its state; not beyond n_computed: nowhere
  int64_t last_cut = 0;            ///< likewise, after that
  int64_t start_by = -1;           ///< the admission by which it must start (admission.cc); -1: not known yet
  std::vector<float> profile;      ///< Affinity::Profile of its prompt
  int64_t n_echoed = 0;            ///< prompt tokens whose events were sent
  EvaluationSink* sink = nullptr;  ///< set, until it ends: an evaluation, nothing is sampled
  std::optional<sampling::Sampler> sampler;
  std::optional<sampling::ConstraintState> constraint;
  std::optional<text::Detokenizer> detokenizer, echo_detokenizer;
  std::optional<text::StopMatcher> stop_matcher;
  SequenceStatistics stats;
  double last_token_seconds = 0;
  bool ended = false;  ///< END was sent; the scheduler drops it after the step

  TokenStream stream;

  int64_t n_prompt() const { return static_cast<int64_t>(request.prompt.size()); }
  int64_t n_tokens() const { return static_cast<int64_t>(tokens.size()); }
  int64_t n_generated() const { return n_tokens() - n_prompt(); }
  bool wants_stop() const { return cancelled || (sink != nullptr && sink->wants_stop()); }
  bool prefilling() const { return n_computed < n_prompt(); }
};

}  // namespace colibri::engine

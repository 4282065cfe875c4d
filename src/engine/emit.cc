// What comes out of a pass: logits for evaluations, tokens and text for everybody else.
#include <algorithm>
#include <cmath>

#include "engine/engine.h"

namespace colibri::engine {
namespace {

std::span<const float> row_of(const model::Logits& logits, int64_t i) {
  return {logits.row(i), static_cast<size_t>(logits.width)};
}

// Damaged weights must never pass for an answer.
Status check_logits(std::span<const float> logits, int64_t position) {
  for (const float v : logits)
    if (!std::isfinite(v))
      return Error{ErrorCode::kFailed, "the logits at position " + std::to_string(position) + " hold " +
                                           (std::isnan(v) ? "NaN" : "infinity") +
                                           "; the weights may be damaged, run `colibri validate` on the model"};
  return {};
}

}  // namespace

// Logits of all rows of the segment from row `first` on, a block at a time, to `sink(row, logits)`.
template <typename Sink>
Status Engine::each_logit_row(const ScheduledSegment& segment, Rows hidden, int64_t first, Sink sink) {
  const int64_t block = plan_.decoder_limits.max_logit_rows, n = segment.rows.n_rows;
  for (; first < n; first += block) {
    logit_rows_.clear();
    for (int64_t i = first; i < std::min(n, first + block); ++i) logit_rows_.push_back(segment.rows.first_row + i);
    const model::Logits logits = decoder_->head(hidden, logit_rows_);
    if (backend_->abandoned()) return Error{ErrorCode::kCancelled, "the evaluation was stopped"};
    for (int64_t i = 0; i < logits.rows; ++i)
      COLIBRI_TRY(check_logits(row_of(logits, i), segment.rows.first_position + first + i));
    COLIBRI_TRY(sink(first, logits));
  }
  return {};
}

// ---- evaluations ---------------------------------------------------------------------------------------------------

void Engine::report_evaluations(const PassPlan& plan, Rows hidden) {
  for (const ScheduledSegment& segment : plan.segments()) {
    Sequence& sequence = *segment.sequence;
    if (sequence.sink == nullptr || sequence.ended) continue;
    if (sequence.sink->wants_logits()) {
      if (const Status status = report_logits(segment, hidden); !status.ok()) {
        finish_with(sequence, status.error());
        continue;
      }
    }
    if (segment.complete && !sequence.wants_stop()) finish(sequence, "stop");
  }
}

Status Engine::report_logits(const ScheduledSegment& segment, Rows hidden) {
  // Rows that are computed again after a failed step have been reported.
  int64_t& reported = segment.sequence->n_reported;
  const int64_t first = std::max<int64_t>(0, reported - segment.rows.first_position);
  return each_logit_row(segment, hidden, first, [&](int64_t row, const model::Logits& logits) -> Status {
    const int64_t position = segment.rows.first_position + row;
    if (!segment.sequence->sink->on_logits(position, logits.rows, logits.data, spec().vocab_size))
      return Error{ErrorCode::kCancelled, "the evaluation was stopped"};
    reported = position + logits.rows;
    return {};
  });
}

// ---- prompts -------------------------------------------------------------------------------------------------------

void Engine::report_progress(const PassPlan& plan) {
  for (const ScheduledSegment& segment : plan.segments()) {
    Sequence& sequence = *segment.sequence;
    if (segment.complete || sequence.sink != nullptr || sequence.ended) continue;
    TokenEvent& event = new_event(EventKind::kProgress, sequence);
    event.prompt_done = sequence.n_computed;
    sequence.stream.push(event);
  }
}

// The logits of a position tell how probable the next token of the prompt was.
void Engine::echo_prompts(const PassPlan& plan, Rows hidden) {
  for (const ScheduledSegment& segment : plan.segments()) {
    Sequence& sequence = *segment.sequence;
    if (!sequence.request.echo || sequence.sink != nullptr || sequence.ended) continue;
    if (sequence.n_echoed == 0) echo_token(sequence, {});
    if (sequence.request.logprobs < 0) {
      while (sequence.n_echoed < std::min(sequence.n_prompt(), sequence.n_computed + 1)) echo_token(sequence, {});
      continue;
    }
    const int64_t first = std::max<int64_t>(0, sequence.n_echoed - 1 - segment.rows.first_position);
    const Status status = each_logit_row(segment, hidden, first, [&](int64_t, const model::Logits& logits) -> Status {
      for (int64_t i = 0; i < logits.rows && sequence.n_echoed < sequence.n_prompt(); ++i)
        echo_token(sequence, row_of(logits, i));
      return {};
    });
    if (!status.ok()) finish_with(sequence, status.error());
  }
}

// `logits`: those that the prompt's next token is judged by; empty for its first.
void Engine::echo_token(Sequence& sequence, std::span<const float> logits) {
  TokenEvent& event = new_event(EventKind::kPromptToken, sequence);
  event.token = sequence.request.prompt[static_cast<size_t>(sequence.n_echoed++)];
  if (sequence.echo_detokenizer) {
    sequence.echo_detokenizer->push(event.token, event.text);
    if (sequence.n_echoed == sequence.n_prompt()) sequence.echo_detokenizer->finish(event.text);
  }
  if (!logits.empty()) add_logprobs(sequence, logits, event);
  sequence.stream.push(event);
}

void Engine::add_logprobs(const Sequence& sequence, std::span<const float> logits, TokenEvent& event) {
  const sampling::LogSoftmax probabilities(logits.first(static_cast<size_t>(sampled_vocab_)));
  event.logprob = probabilities[event.token];
  event.top.resize(static_cast<size_t>(std::max(0, sequence.request.logprobs)));
  event.top.resize(probabilities.top(event.top));
}

// ---- generation ----------------------------------------------------------------------------------------------------

void Engine::sample_and_emit(const PassPlan& plan, Rows hidden) {
  logit_rows_.clear();
  logit_sequences_.clear();
  for (const ScheduledSegment& segment : plan.segments()) {
    Sequence& sequence = *segment.sequence;
    if (!segment.complete || sequence.sink != nullptr || sequence.ended) continue;
    if (sequence.n_tokens() >= sequence.limit) {  // a request for no tokens at all
      finish(sequence, "length");
      continue;
    }
    logit_rows_.push_back(segment.rows.first_row + segment.rows.n_rows - 1);
    logit_sequences_.push_back(&sequence);
  }
  if (logit_rows_.empty()) return;
  const model::Logits logits = decoder_->head(hidden, logit_rows_);
  if (backend_->abandoned()) return;  // cancelled by all of them
  for (size_t i = 0; i < logit_sequences_.size(); ++i) {
    const std::span<const float> row = row_of(logits, static_cast<int64_t>(i));
    const Result<TokenId> token = sample(*logit_sequences_[i], row);
    if (token.ok())
      emit(*logit_sequences_[i], *token, row);
    else
      finish_with(*logit_sequences_[i], token.error());
  }
}

Result<TokenId> Engine::sample(Sequence& sequence, std::span<const float> logits) {
  COLIBRI_TRY(check_logits(logits, sequence.n_tokens() - 1));
  if (!sequence.constraint) return sequence.sampler->sample(logits, *sampler_scratch_);
  COLIBRI_ASSIGN(const TokenId token,
                 sequence.sampler->sample(logits, *sampler_scratch_, &sequence.constraint->allowed()));
  if (!sequence.constraint->accept(token))
    return Error{ErrorCode::kFailed, "token " + std::to_string(token) + " was sampled against the constraint"};
  return token;
}

// Every event is written into the same one, whose strings keep their memory.
TokenEvent& Engine::new_event(EventKind kind, const Sequence& sequence) {
  event_.kind = kind;
  event_.token = -1;
  event_.text.clear();
  event_.prompt_done = 0;
  event_.prompt_cached = sequence.n_cached;
  event_.finish_reason = "";
  event_.code = ErrorCode::kFailed;
  event_.error.clear();
  event_.logprob = TokenEvent::kNoLogprob;
  event_.top.clear();
  event_.seconds = sequence.stats.elapsed();
  return event_;
}

void Engine::emit(Sequence& sequence, TokenId token, std::span<const float> logits) {
  TokenEvent& event = new_event(EventKind::kToken, sequence);
  count_token(sequence, event.seconds);
  sequence.tokens.push_back(token);

  const bool end_of_text = !sequence.request.ignore_eos && is_end_of_text(token);
  event.token = token;
  if (sequence.request.logprobs >= 0) add_logprobs(sequence, logits, event);
  if (sequence.detokenizer && !end_of_text) {
    decoded_.clear();
    sequence.detokenizer->push(token, decoded_);
    sequence.stop_matcher->push(decoded_, event.text);
  }
  sequence.stream.push(event);
  const bool whole = sequence.constraint && sequence.constraint->must_end();
  if (end_of_text || whole || (sequence.stop_matcher && sequence.stop_matcher->stopped()))
    finish(sequence, "stop");
  else if (sequence.n_tokens() >= sequence.limit)
    finish(sequence, "length");
}

void Engine::count_token(Sequence& sequence, double now) {
  SequenceStatistics& stats = sequence.stats;
  metrics_.generated_tokens.add(1);
  if (sequence.n_generated() == 0) {
    stats.first_token_seconds = now;
    metrics_.time_to_first_token.observe(now);
  } else {
    const double gap = now - sequence.last_token_seconds;
    ++stats.decode.tokens;
    stats.decode.seconds += gap;
    stats.inter_token_seconds.push_back(static_cast<float>(gap));
    stats.steps.push_back(stats.decode.experts);
    metrics_.inter_token.observe(gap);
  }
  sequence.last_token_seconds = now;
}

void Engine::finish_with(Sequence& sequence, const Error& error) {
  finish(sequence, error.code == ErrorCode::kCancelled ? "cancelled" : "error", &error);
}

void Engine::finish(Sequence& sequence, const char* reason, const Error* error) {
  if (sequence.ended) return;
  sequence.ended = true;
  TokenEvent& event = new_event(EventKind::kEnd, sequence);
  if (sequence.detokenizer && !sequence.stop_matcher->stopped()) {
    decoded_.clear();
    sequence.detokenizer->finish(decoded_);
    sequence.stop_matcher->push(decoded_, event.text);
    sequence.stop_matcher->finish(event.text);
    // The last held-back text may complete a stop string.
    if (sequence.stop_matcher->stopped() && error == nullptr) reason = "stop";
  }
  sequence.stats.finish_reason = reason;
  event.finish_reason = reason;
  event.code = error != nullptr ? error->code : ErrorCode::kCancelled;
  if (error != nullptr) event.error = error->message;
  if (affinity_ && !sequence.profile.empty()) affinity_->learn(sequence.profile, sequence.stats.activations);
  if (sequence.sink == nullptr) {
    metrics_.count_end(reason);
    metrics_.request.observe(event.seconds);
  }
  sequence.sink = nullptr;  // evaluate() returns with the end, while a pass with this sequence may be under way
  sequence.stream.push(event);
}

bool Engine::is_end_of_text(TokenId id) const {
  return std::find(description().eos_ids.begin(), description().eos_ids.end(), id) != description().eos_ids.end();
}

}  // namespace colibri::engine

// The engine's thread. One step: schedule -> forward -> sample -> emit.
#include <algorithm>
#include <cmath>

#include "engine/engine.h"
#include "platform/memory.h"

namespace colibri::engine {

namespace {

// A step is given up as soon as every sequence in it was cancelled.
bool nobody_waits(const void* scheduled) {
  const auto& segments = *static_cast<const std::vector<ScheduledSegment>*>(scheduled);
  return std::all_of(segments.begin(), segments.end(), [](const auto& s) { return s.sequence->wants_stop(); });
}

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

Status Engine::step() {
  keep_within_limit();
  const model::Batch batch = scheduler_->next_batch();
  if (batch.rows() == 0) return {};
  const Clock::time_point start = Clock::now();
  routing_->begin(scheduler_->scheduled());
  backend_->watch(nobody_waits, &scheduler_->scheduled());
  if (experts_) experts_->begin_step(batch.rows(), nobody_waits, &scheduler_->scheduled());
  begin_states();
  COLIBRI_ASSIGN(const Rows hidden, decoder_->forward(batch, &*routing_));
  if (experts_) credit_reading();
  for (const ScheduledSegment& segment : scheduler_->scheduled()) segment.sequence->n_computed += segment.rows.n_rows;
  keep_states();
  report_evaluations(hidden);
  finish_prefill_slices(start);
  sample_and_emit(hidden);
  return {};
}

// A sequence begins with zeros.
void Engine::begin_states() {
  for (const ScheduledSegment& segment : scheduler_->scheduled())
    if (segment.rows.first_position == 0) states_->reset(segment.sequence->slot);
}

// Where a prompt ends, a sequence can begin again.
void Engine::keep_states() {
  for (const ScheduledSegment& segment : scheduler_->scheduled())
    if (segment.prefill && segment.complete) states_->checkpoint(segment.sequence->slot, segment.sequence->n_computed);
}

// A step that failed has changed recurrent state. What goes on computes the tokens behind the last good state again.
void Engine::rewind(const ScheduledSegment& segment) {
  if (!spec().recurrent()) return;
  Sequence& sequence = *segment.sequence;
  int64_t position = states_->resumable(sequence.slot, sequence.n_computed);
  if (!cache_->holds(position, sequence.n_computed + segment.rows.n_rows)) position = 0;
  states_->resume(sequence.slot, position);
  sequence.n_computed = position;
}

// What the step waited for experts, all of its sequences waited; what it read, they share.
void Engine::credit_reading() {
  const double waited = experts_->wait_seconds() - waited_before_;
  const uint64_t read = experts_->bytes_read() - read_before_;
  waited_before_ += waited;
  read_before_ += read;
  const uint64_t n = scheduler_->scheduled().size();
  uint64_t rest = read % n;
  for (const ScheduledSegment& segment : scheduler_->scheduled()) {
    SequenceStatistics& stats = segment.sequence->stats;
    ExpertUse& use = (segment.prefill ? stats.prefill : stats.decode).experts;
    use.wait_seconds += waited;
    use.bytes_read += read / n + std::exchange(rest, 0);
  }
}

void Engine::run() {
  while (wait_for_work()) {
    drop_cancelled();
    scheduler_->admit(*cache_);
    try {
      if (const Status status = step(); !status.ok()) fail_step(status.error());
    } catch (const std::exception& e) {
      fail_step({ErrorCode::kFailed, std::string("the engine failed: ") + e.what()});
    }
    reap();
  }
  for (const auto& sequence : scheduler_->all()) finish(*sequence, "cancelled");
  reap();
}

// Takes over what was submitted; false when the engine closes. Between requests the store may read ahead.
bool Engine::wait_for_work() {
  constexpr std::chrono::milliseconds kTendEvery(5);
  const auto ready = [this] { return stop_ || poked_ || !incoming_.empty() || scheduler_->has_work(); };
  std::unique_lock lock(mutex_);
  while (!ready()) {
    lock.unlock();
    const bool more = experts_ && experts_->tend();
    lock.lock();
    more ? static_cast<void>(wake_.wait_for(lock, kTendEvery, ready)) : wake_.wait(lock, ready);
  }
  poked_ = false;
  for (auto& sequence : incoming_) scheduler_->add(std::move(sequence));
  incoming_.clear();
  return !stop_;
}

// A memory limit that was lowered since the plan was made takes slots for experts.
void Engine::keep_within_limit() {
  constexpr std::chrono::seconds kEvery(1);
  const Clock::time_point now = Clock::now();
  if (!experts_ || now - limit_checked_ < kEvery) return;
  limit_checked_ = now;
  const int64_t headroom = platform::memory_headroom_bytes();
  if (headroom >= 0) return;
  const int64_t given = experts_->give_back(-headroom);
  if (given > 0 && log_)
    log_(1, "the memory limit was lowered: " + std::to_string(given) + " bytes of the expert cache were given back, " +
                std::to_string(-headroom) + " were over it");
}

void Engine::drop_cancelled() {
  for (const auto& sequence : scheduler_->running())
    if (sequence->wants_stop()) finish(*sequence, "cancelled");
  for (const auto& sequence : scheduler_->waiting())
    if (sequence->wants_stop()) finish(*sequence, "cancelled");
  reap();
}

void Engine::fail_step(const Error& error) {
  if (error.code == ErrorCode::kCancelled) {  // by all of them; drop_cancelled() sends the events
    for (const ScheduledSegment& segment : scheduler_->scheduled()) segment.sequence->cancelled = true;
    return;
  }
  // An expert that cannot be read ends the sequences that need it. The others lose nothing: the next step computes the
  // same again.
  bool anybody = false;
  for (const ScheduledSegment& segment : scheduler_->scheduled()) {
    if (!concerns(segment, error)) {
      rewind(segment);
      continue;
    }
    finish(*segment.sequence, "error", &error);
    anybody = true;
  }
  if (anybody) return;
  for (const ScheduledSegment& segment : scheduler_->scheduled()) finish(*segment.sequence, "error", &error);
}

bool Engine::concerns(const ScheduledSegment& segment, const Error& error) const {
  if (error.code != ErrorCode::kIo || !experts_ || !experts_->last_failure()) return true;
  return routing_->chose(segment, experts_->last_failure()->second);
}

void Engine::reap() { scheduler_->remove_ended(*cache_); }

// ---- evaluations ---------------------------------------------------------------------------------------------------

void Engine::report_evaluations(Rows hidden) {
  for (const ScheduledSegment& segment : scheduler_->scheduled()) {
    Sequence& sequence = *segment.sequence;
    if (sequence.sink == nullptr) continue;
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
  const int64_t block = plan_.decoder_limits.max_logit_rows;
  const int64_t n = segment.rows.n_rows;
  // Rows that are computed again after a failed step have been reported.
  int64_t& reported = segment.sequence->n_reported;
  for (int64_t first = std::max<int64_t>(0, reported - segment.rows.first_position); first < n; first += block) {
    logit_rows_.clear();
    for (int64_t i = first; i < std::min(n, first + block); ++i) logit_rows_.push_back(segment.rows.first_row + i);
    const model::Logits logits = decoder_->head(hidden, logit_rows_);
    const Error stopped{ErrorCode::kCancelled, "the evaluation was stopped"};
    if (backend_->abandoned()) return stopped;
    const int64_t position = segment.rows.first_position + first;
    for (int64_t i = 0; i < logits.rows; ++i) COLIBRI_TRY(check_logits(row_of(logits, i), position + i));
    if (!segment.sequence->sink->on_logits(position, logits.rows, logits.data, spec().vocab_size)) return stopped;
    reported = position + logits.rows;
  }
  return {};
}

// ---- generation ----------------------------------------------------------------------------------------------------

void Engine::finish_prefill_slices(Clock::time_point start) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (const ScheduledSegment& segment : scheduler_->scheduled()) {
    Sequence& sequence = *segment.sequence;
    if (!segment.prefill || sequence.ended) continue;
    sequence.stats.prefill.tokens += segment.rows.n_rows;
    sequence.stats.prefill.seconds += seconds;
    if (segment.complete || sequence.sink != nullptr) continue;
    TokenEvent& event = new_event(EventKind::kProgress);
    event.prompt_done = sequence.n_computed;
    event.seconds = sequence.stats.elapsed();
    sequence.stream.push(event);
  }
}

void Engine::sample_and_emit(Rows hidden) {
  logit_rows_.clear();
  logit_sequences_.clear();
  for (const ScheduledSegment& segment : scheduler_->scheduled()) {
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
    const Result<TokenId> token = sample(*logit_sequences_[i], row_of(logits, static_cast<int64_t>(i)));
    if (token.ok())
      emit(*logit_sequences_[i], *token);
    else
      finish_with(*logit_sequences_[i], token.error());
  }
}

Result<TokenId> Engine::sample(Sequence& sequence, std::span<const float> logits) {
  COLIBRI_TRY(check_logits(logits, sequence.n_tokens() - 1));
  return sequence.sampler->sample(logits, *sampler_scratch_);
}

// Every event is written into the same one, whose strings keep their memory.
TokenEvent& Engine::new_event(EventKind kind) {
  event_.kind = kind;
  event_.token = -1;
  event_.text.clear();
  event_.prompt_done = 0;
  event_.finish_reason = "";
  event_.code = ErrorCode::kFailed;
  event_.error.clear();
  event_.seconds = 0;
  return event_;
}

void Engine::emit(Sequence& sequence, TokenId token) {
  SequenceStatistics& stats = sequence.stats;
  const double now = stats.elapsed();
  if (sequence.n_generated() == 0) {
    stats.first_token_seconds = now;
  } else {
    ++stats.decode.tokens;
    stats.decode.seconds += now - sequence.last_token_seconds;
    stats.inter_token_seconds.push_back(static_cast<float>(now - sequence.last_token_seconds));
    stats.steps.push_back(stats.decode.experts);
  }
  sequence.last_token_seconds = now;
  sequence.tokens.push_back(token);

  const bool end_of_text = !sequence.request.ignore_eos && is_end_of_text(token);
  TokenEvent& event = new_event(EventKind::kToken);
  event.token = token;
  event.seconds = now;
  if (sequence.detokenizer && !end_of_text) {
    decoded_.clear();
    sequence.detokenizer->push(token, decoded_);
    sequence.stop_matcher->push(decoded_, event.text);
  }
  sequence.stream.push(event);
  if (end_of_text || (sequence.stop_matcher && sequence.stop_matcher->stopped()))
    finish(sequence, "stop");
  else if (sequence.n_tokens() >= sequence.limit)
    finish(sequence, "length");
}

void Engine::finish_with(Sequence& sequence, const Error& error) {
  finish(sequence, error.code == ErrorCode::kCancelled ? "cancelled" : "error", &error);
}

void Engine::finish(Sequence& sequence, const char* reason, const Error* error) {
  if (sequence.ended) return;
  sequence.ended = true;
  TokenEvent& event = new_event(EventKind::kEnd);
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
  event.seconds = sequence.stats.elapsed();
  sequence.stream.push(event);
}

bool Engine::is_end_of_text(TokenId id) const {
  return std::find(description().eos_ids.begin(), description().eos_ids.end(), id) != description().eos_ids.end();
}

}  // namespace colibri::engine

// The engine's thread. One step: the decode pass, its tokens, then a slice of the prefill pass.
#include <algorithm>

#include "engine/engine.h"
#include "platform/memory.h"

namespace colibri::engine {

namespace {

using model::Lane;

double seconds_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

// A pass is given up as soon as every sequence in it has ended or was cancelled.
bool nobody_waits(const void* scheduled) {
  const auto& segments = *static_cast<const std::vector<ScheduledSegment>*>(scheduled);
  return std::all_of(segments.begin(), segments.end(),
                     [](const auto& s) { return s.sequence->ended || s.sequence->wants_stop(); });
}

}  // namespace

// Whose time is measured from one call of charge() to the next.
void Engine::charge(Cause cause) {
  const Clock::time_point now = Clock::now();
  step_seconds_[static_cast<size_t>(cause)] += seconds_between(charged_until_, now);
  charged_until_ = now;
}

// What a pass waited for experts is no computing.
void Engine::charge_pass(Cause computing, Cause waiting, double waited) {
  charge(computing);
  step_seconds_[static_cast<size_t>(computing)] -= waited;
  step_seconds_[static_cast<size_t>(waiting)] += waited;
}

void Engine::step() {
  const size_t decode_rows = scheduler_->plan_decode().segments().size();
  if (decode_rows > 0) guard_pass(scheduler_->decode(), [this] { return decode_pass(); });
  if (!guard_pass(scheduler_->prefill(), [this] { return prefill_slice(); })) scheduler_->end_prefill();
  charge(Cause::kOther);
  metrics_.end_step(step_seconds_, decode_rows);
  step_seconds_.fill(0);
}

// A pass that fails ends the sequences that it concerns, not the engine.
template <typename Pass>
bool Engine::guard_pass(const PassPlan& plan, Pass pass) {
  Status status;
  try {
    status = pass();
  } catch (const std::exception& e) {
    status = Error{ErrorCode::kFailed, std::string("the engine failed: ") + e.what()};
  }
  if (!status.ok()) fail_pass(plan, status.error());
  return status.ok();
}

Status Engine::decode_pass() {
  charge(Cause::kOther);
  const PassPlan& plan = scheduler_->decode();
  const double waited = experts_ ? experts_->wait_seconds() : 0;
  watch(plan, plan.batch().rows());
  const Clock::time_point start = Clock::now();
  COLIBRI_ASSIGN(const Rows hidden, decoder_->forward(Lane::kDecode, plan.batch(), &*routing_));
  pacing_->decoded(seconds_between(start, Clock::now()));
  const double waits = credit_reading(plan, waited);
  wait_per_row_ += 0.1 * (waits / static_cast<double>(plan.segments().size()) - wait_per_row_);
  charge_pass(Cause::kDecode, Cause::kDecodeWait, waits);
  finish_rows(plan);
  sample_and_emit(plan, hidden);
  charge(Cause::kSampling);
  return {};
}

// Some pieces of the pass over prompts: as many as fit while others wait for tokens, else one, so that whatever happens
// meanwhile is seen soon.
Status Engine::prefill_slice() {
  charge(Cause::kOther);
  const PassPlan& plan = scheduler_->prefill();
  const bool anyone_decodes = scheduler_->anyone_decodes();
  const bool begins = plan.empty();
  if (begins && scheduler_->plan_prefill(pacing_->pass_rows(anyone_decodes)).empty()) return {};
  const int64_t rows = plan.batch().rows();
  const double waited = experts_ ? experts_->wait_seconds() : 0;
  watch(plan, begins ? rows : 0);
  if (begins) begin_prefill(plan);
  const Clock::time_point start = Clock::now();
  bool done = false;
  const int32_t max_experts = anyone_decodes ? experts_per_part_ : model::Decoder::kAllExperts;
  model::Piece piece = decoder_->upcoming(Lane::kPrefill);
  for (double spent = 0; !done && (spent == 0 || (anyone_decodes && pacing_->fits(rows, piece, spent)));) {
    COLIBRI_ASSIGN(done, decoder_->next_piece(Lane::kPrefill, max_experts, &*routing_));
    const double now = seconds_between(start, Clock::now());
    pacing_->ran(rows, piece, !anyone_decodes, now - spent);
    prefill_seconds_ += now - spent;
    spent = now;
    if (!done) piece = decoder_->upcoming(Lane::kPrefill);
  }
  charge_pass(Cause::kPrefill, Cause::kPrefillWait, credit_reading(plan, waited));
  for (const ScheduledSegment& segment : plan.segments())
    segment.sequence->stats.prefill.seconds += seconds_between(start, charged_until_);
  if (done) end_prefill(plan);
  return {};
}

void Engine::begin_prefill(const PassPlan& plan) {
  for (const ScheduledSegment& segment : plan.segments())
    if (segment.rows.first_position == 0) states_->reset(segment.sequence->slot);  // a sequence begins with zeros
  decoder_->begin(Lane::kPrefill, plan.batch());
  prefill_seconds_ = 0;
}

void Engine::end_prefill(const PassPlan& plan) {
  const Rows hidden = decoder_->end(Lane::kPrefill);
  finish_rows(plan);
  pacing_->pass_ran(plan.batch().rows(), prefill_seconds_);
  metrics_.prefill_passes.add(1);
  metrics_.prompt_tokens.add(static_cast<uint64_t>(plan.batch().rows()));
  report_evaluations(plan, hidden);
  echo_prompts(plan, hidden);
  report_progress(plan);
  sample_and_emit(plan, hidden);
  scheduler_->end_prefill();
  charge(Cause::kSampling);
}

// Who is asked whether the pass is still wanted, and told its routing.
void Engine::watch(const PassPlan& plan, int64_t new_rows) {
  routing_->begin(plan.segments());
  backend_->watch(nobody_waits, &plan.segments());
  if (experts_) experts_->begin_step(new_rows, nobody_waits, &plan.segments());
}

// The rows of the pass are in the caches. Where a prompt ends, a recurrent sequence can begin again.
void Engine::finish_rows(const PassPlan& plan) {
  for (const ScheduledSegment& segment : plan.segments()) {
    Sequence& sequence = *segment.sequence;
    sequence.n_computed += segment.rows.n_rows;
    if (segment.prefill) sequence.stats.prefill.tokens += segment.rows.n_rows;
    if (segment.prefill && segment.complete) states_->checkpoint(sequence.slot, sequence.n_computed);
    if (prefixes_) keep_prefix(segment);
  }
}

// A pass that failed has changed recurrent state. What goes on computes the tokens behind the last good state again.
void Engine::rewind(const ScheduledSegment& segment) {
  if (!spec().recurrent()) return;
  Sequence& sequence = *segment.sequence;
  int64_t position = states_->resumable(sequence.slot, sequence.n_computed);
  if (!cache_->holds(position, sequence.n_computed + segment.rows.n_rows)) position = 0;
  states_->resume(sequence.slot, position);
  sequence.n_computed = position;
}

// What the pass waited for experts, all of its sequences waited; what it read, they share. Returns the seconds.
double Engine::credit_reading(const PassPlan& plan, double waited_before) {
  if (!experts_) return 0;
  const double waited = experts_->wait_seconds() - waited_before;
  const uint64_t read = experts_->bytes_read() - read_before_;
  read_before_ += read;
  const uint64_t n = plan.segments().size();
  uint64_t rest = read % n;
  for (const ScheduledSegment& segment : plan.segments()) {
    SequenceStatistics& stats = segment.sequence->stats;
    ExpertUse& use = (segment.prefill ? stats.prefill : stats.decode).experts;
    use.wait_seconds += waited;
    use.bytes_read += read / n + std::exchange(rest, 0);
  }
  return waited;
}

void Engine::run() {
  while (wait_for_work()) {
    charged_until_ = Clock::now();
    keep_within_limit();
    drop_cancelled();
    admit();
    charge(Cause::kPrefix);
    step();
    reap();
  }
  for (const auto& sequence : scheduler_->all()) finish(*sequence, "cancelled");
  scheduler_->end_prefill();
  reap();
}

// Takes over what was submitted; false when the engine closes. Between requests the store may read ahead.
bool Engine::wait_for_work() {
  constexpr std::chrono::milliseconds kTendEvery(5);
  const auto ready = [this] { return stop_ || poked_ || slot_freed_ || !incoming_.empty() || scheduler_->has_work(); };
  std::unique_lock lock(mutex_);
  while (!ready()) {
    lock.unlock();
    const bool saving = tend_prefixes();
    const bool more = (experts_ && experts_->tend()) || saving;
    lock.lock();
    more ? static_cast<void>(wake_.wait_for(lock, kTendEvery, ready)) : wake_.wait(lock, ready);
  }
  poked_ = slot_freed_ = false;
  for (auto& sequence : incoming_) scheduler_->add(std::move(sequence), pacing_->seconds_per_row());
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
  const auto& pass = scheduler_->prefill().segments();
  if (!pass.empty() && std::all_of(pass.begin(), pass.end(), [](const auto& s) { return s.sequence->ended; }))
    scheduler_->end_prefill();
  reap();
}

void Engine::fail_pass(const PassPlan& plan, const Error& error) {
  if (error.code == ErrorCode::kCancelled) {  // by all of them; drop_cancelled() sends the events
    for (const ScheduledSegment& segment : plan.segments()) segment.sequence->cancelled = true;
    return;
  }
  // An expert that cannot be read ends the sequences that need it. The others lose nothing: the next step computes the
  // same again.
  bool anybody = false;
  for (const ScheduledSegment& segment : plan.segments()) {
    if (!concerns(segment, error)) {
      rewind(segment);
      continue;
    }
    finish(*segment.sequence, "error", &error);
    anybody = true;
  }
  if (anybody) return;
  for (const ScheduledSegment& segment : plan.segments()) finish(*segment.sequence, "error", &error);
}

bool Engine::concerns(const ScheduledSegment& segment, const Error& error) const {
  if (error.code != ErrorCode::kIo || !experts_ || !experts_->last_failure()) return true;
  return routing_->chose(segment, experts_->last_failure()->second);
}

// Who waits may have a slot now.
void Engine::reap() {
  if (scheduler_->remove_ended(*cache_) > 0) slot_freed_ = !scheduler_->waiting().empty();
}

}  // namespace colibri::engine

#include "generation.h"

#include <algorithm>
#include <cmath>

namespace colibri::server {
namespace {

constexpr int kMostTickMs = 1000;
constexpr size_t kMostWaiting = 4 << 20;  // of one answer

int64_t next_number() {
  static std::atomic<int64_t> number{0};
  return ++number;
}

std::string_view text_of(const colibri_event& event) {
  return event.text != nullptr ? std::string_view(event.text, event.text_size) : std::string_view();
}

TokenLogprob logprob_of(const colibri_event& event) {
  TokenLogprob entry{event.token, event.logprob, {}, std::string(text_of(event))};
  for (size_t i = 0; i < event.n_top; ++i) entry.top.emplace_back(event.top[i].token, event.top[i].logprob);
  return entry;
}

std::vector<Delta> plain(std::string_view text) {
  if (text.empty()) return {};
  Delta delta;
  delta.text = text;
  return {std::move(delta)};
}

bool bends_logits(const GenerationOptions& options) {
  return !options.logit_bias.empty() || options.repetition_penalty.value_or(1) != 1 ||
         options.presence_penalty.value_or(0) != 0 || options.frequency_penalty.value_or(0) != 0;
}

// Which stop string a text ran into: the one that begins first.
std::string first_stop(const std::string& text, const std::vector<std::string>& stops) {
  size_t where = text.npos;
  std::string found;
  for (const std::string& stop : stops) {
    const size_t at = text.find(stop);
    if (at >= where) continue;
    where = at;
    found = stop;
  }
  return found;
}

}  // namespace

void Bell::ring(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (responder_) responder_->post(std::move(call));
}

void Bell::silence() {
  std::shared_ptr<Responder> last;  // goes without the lock
  const std::lock_guard lock(mutex_);
  last.swap(responder_);
}

void Generation::start(ApiContext& context, GenerationPlan plan, std::shared_ptr<Responder> responder) {
  auto place = context.admission.enter();
  if (!place) return responder->respond(plan.format->refusal(queue_full(context)));
  const std::shared_ptr<Generation> self(
      new Generation(context, std::move(plan), std::move(responder), std::move(place)));
  context.add(self);
  const std::weak_ptr<Generation> weak = self;
  const auto alive = [weak](void (Generation::*call)()) {
    return [weak, call] {
      if (const auto generation = weak.lock()) (generation.get()->*call)();
    };
  };
  const size_t ahead = context.admission.waiting() - 1;
  while (!self->over_ && self->n_submitted_ < std::min(self->n_answers(), context.settings.parallel))
    if (!self->submit_next()) return;
  self->responder_->on_drained(alive(&Generation::pump));
  self->responder_->on_shutdown([weak] {
    if (const auto generation = weak.lock())
      generation->fail({503, "the server is shutting down", "shutting_down", {}, {}, 5});
  });
  self->schedule_tick();
  if (ahead > 0 && self->plan_.options.stream && self->plan_.options.return_progress) {
    self->open_stream();
    self->out_ += self->plan_.format->progress({self->n_prompt_, 0, 0, 0, static_cast<int64_t>(ahead)});
    self->flush();
  }
  // Last: a client that has gone already is told at once.
  self->responder_->on_gone(alive(&Generation::client_gone));
}

Generation::Generation(ApiContext& context, GenerationPlan plan, std::shared_ptr<Responder> responder,
                       std::unique_ptr<Admission::Place> place)
    : context_(context),
      plan_(std::move(plan)),
      responder_(std::move(responder)),
      bell_(std::make_shared<Bell>(responder_)),
      place_(std::move(place)),
      answers_(plan_.prompts.size() * static_cast<size_t>(plan_.options.n)),
      seed_(plan_.options.seed.value_or(random_seed())),
      started_(Clock::now()),
      last_write_(started_),
      number_(next_number()) {
  for (size_t i = 0; i < answers_.size(); ++i) answers_[i].choice.index = static_cast<int>(i);
  for (const api::TokenIds& prompt : plan_.prompts) n_prompt_ += static_cast<int64_t>(prompt.size());
}

Generation::Facts Generation::facts() const {
  return {number_, n_prompt_, n_generated_.load(), answers_.size(), running_.load(), waited_s()};
}

// ---- sequences ---------------------------------------------------------------------------------------------------

const api::TokenIds& Generation::prompt_of(size_t answer) const {
  return plan_.prompts[answer / static_cast<size_t>(plan_.options.n)];
}

colibri_request Generation::request_for(size_t answer, std::vector<const char*>& stops) const {
  const GenerationOptions& options = plan_.options;
  colibri_request request;
  colibri_request_init(context_.host.engine()->handle(), &request);
  const api::TokenIds& prompt = prompt_of(answer);
  request.prompt = prompt.data();
  request.n_prompt = prompt.size();
  const int64_t most = context_.settings.max_tokens;
  const int64_t wanted = options.max_tokens;
  request.max_tokens = static_cast<int32_t>(most < 0 ? wanted : wanted < 0 ? most : std::min(most, wanted));
  request.temperature = options.temperature.value_or(request.temperature);
  request.top_p = options.top_p.value_or(request.top_p);
  request.min_p = options.min_p.value_or(request.min_p);
  request.repetition_penalty = options.repetition_penalty.value_or(request.repetition_penalty);
  request.presence_penalty = options.presence_penalty.value_or(request.presence_penalty);
  request.frequency_penalty = options.frequency_penalty.value_or(request.frequency_penalty);
  request.top_k = static_cast<int32_t>(options.top_k.value_or(request.top_k));
  if (request.temperature == 0 && bends_logits(options)) {
    // Greedy sampling looks at the logits alone; the best of the bent ones is what was asked for.
    request.temperature = 1;
    request.top_k = 1;
  }
  request.seed = seed_ + answer % static_cast<size_t>(options.n);
  request.logit_bias = options.logit_bias.data();
  request.n_logit_bias = options.logit_bias.size();
  for (const std::string& stop : options.stop) stops.push_back(stop.c_str());
  request.stop = stops.data();
  request.n_stop = stops.size();
  request.ignore_eos = options.ignore_eos ? 1 : 0;
  request.logprobs = static_cast<int32_t>(options.logprobs);
  request.echo = options.echo ? 1 : 0;
  request.kept_special = plan_.kept_special.data();
  request.n_kept_special = plan_.kept_special.size();
  request.constraint = plan_.constraint.empty() ? nullptr : plan_.constraint.c_str();
  request.client = plan_.client.c_str();
  request.prefix_key = options.prefix_key.c_str();
  return request;
}

// False when it was refused, which has ended the request.
bool Generation::submit_next() {
  const size_t i = n_submitted_++;
  std::vector<const char*> stops;
  LiveSequence::Options live;
  live.count_experts = plan_.options.expert_activations.value_or(context_.settings.expert_activations);
  live.notify = [weak = weak_from_this(), bell = bell_] {
    bell->ring([weak] {
      if (const auto self = weak.lock()) self->pump();
    });
  };
  auto sequence = LiveSequence::submit(context_.host, request_for(i, stops), std::move(live));
  if (!sequence) {
    const bool constraint = sequence.error().code == COLIBRI_UNSUPPORTED && !plan_.constraint.empty();
    fail(api_error_of(sequence.error(), constraint ? plan_.constraint_blame : plan_.blame));
    return false;
  }
  answers_[i].sequence = *std::move(sequence);
  return true;
}

void Generation::pump() {
  const auto self = shared_from_this();  // the last answer's end lets go of it
  paused_ = false;
  for (size_t i = 0; i < answers_.size() && !over_ && !paused_; ++i) read(answers_[i]);
  if (!over_) flush();
}

void Generation::read(Answer& answer) {
  while (answer.sequence && !over_) {
    paused_ = streaming_ && reads_too_slowly();
    if (paused_) return;
    const colibri_event event = answer.sequence->next();
    if (event.kind == COLIBRI_EVENT_NONE) return;
    take(answer, event);
  }
}

// The rest of an answer stays in the engine's stream, and keeps its place there, until the client has taken what it was
// given: only when much waits for slow readers, so that they hold up nobody.
bool Generation::reads_too_slowly() const {
  const size_t mine = responder_->queued_bytes() + out_.size();
  if (mine <= context_.settings.stream_buffer_bytes) return false;
  return mine > kMostWaiting || responder_->all_queued_bytes() > context_.settings.all_buffer_bytes;
}

void Generation::take(Answer& answer, const colibri_event& event) {
  if (event.kind != COLIBRI_EVENT_END || event.status == COLIBRI_OK) begin(answer, event);
  switch (event.kind) {
    case COLIBRI_EVENT_PROGRESS:
      return show_progress(answer, event);
    case COLIBRI_EVENT_PROMPT_TOKEN:
      return take_prompt_token(answer, event);
    case COLIBRI_EVENT_TOKEN:
      return take_token(answer, event);
    case COLIBRI_EVENT_END:
      return take_end(answer, event);
    case COLIBRI_EVENT_NONE:
      return;
  }
}

void Generation::begin(Answer& answer, const colibri_event& event) {
  answer.n_cached = std::max<int64_t>(answer.n_cached, event.n_prompt_cached);
  if (answer.begun_s >= 0) return;
  answer.begun_s = event.seconds;
  running_ = true;
  place_->begin();
}

void Generation::show_progress(const Answer& answer, const colibri_event& event) {
  if (!plan_.options.stream || !plan_.options.return_progress) return;
  const auto total = static_cast<int64_t>(prompt_of(static_cast<size_t>(answer.choice.index)).size());
  open_stream();
  out_ +=
      plan_.format->progress({total, event.n_prompt_cached, event.n_prompt_done, event.seconds - answer.begun_s, -1});
}

void Generation::take_prompt_token(Answer& answer, const colibri_event& event) {
  if (plan_.options.logprobs >= 0) answer.pending.push_back(logprob_of(event));
  show(answer, plain(text_of(event)));
}

void Generation::take_token(Answer& answer, const colibri_event& event) {
  if (answer.first_token_s < 0) answer.first_token_s = event.seconds;
  answer.last_token_s = event.seconds;
  answer.last_token = event.token;
  answer.last_text_empty = event.text_size == 0;
  ++answer.n_generated;
  ++answer.n_undecided;
  ++n_generated_;
  if (!plan_.options.stop.empty()) answer.ids.push_back(event.token);
  if (plan_.options.logprobs >= 0) answer.pending.push_back(logprob_of(event));
  if (auto deltas = deltas_of(answer, text_of(event), false)) show(answer, *std::move(deltas));
}

// A token counts as reasoning when the next piece that it leads to is.
void Generation::count_reasoning(Answer& answer, const std::vector<Delta>& deltas) {
  if (deltas.empty()) return;
  if (deltas.front().kind == Delta::Kind::kReasoning) answer.n_reasoning += answer.n_undecided;
  answer.n_undecided = 0;
}

std::optional<std::vector<Delta>> Generation::deltas_of(Answer& answer, std::string_view text, bool last) {
  if (plan_.readers.empty()) return plain(text);
  AnswerReader& reader = plan_.readers[static_cast<size_t>(answer.choice.index)];
  std::vector<Delta> deltas;
  for (const bool finish : {false, true}) {
    if (finish ? !last : text.empty()) continue;
    auto more = finish ? reader.finish() : reader.push(text);
    if (!more) return fail(api_error_of(more.error(), plan_.blame)), std::nullopt;
    std::move(more->begin(), more->end(), std::back_inserter(deltas));
  }
  return deltas;
}

void Generation::show(Answer& answer, std::vector<Delta> deltas) {
  count_reasoning(answer, deltas);
  if (deltas.empty()) return;
  for (const Delta& delta : deltas) answer.called_tool |= delta.kind == Delta::Kind::kCallBegins;
  if (!plan_.options.stream) {
    for (const Delta& delta : deltas) append_delta(delta, answer.choice);
    return;
  }
  const json::value timings = plan_.options.timings_per_token ? json::value(timings_json(usage())) : json::value();
  open_stream();
  out_ += plan_.format->piece(answer.choice.index, deltas, answer.pending, timings);
  answer.pending.clear();
}

bool Generation::is_special(int32_t token) const {
  const api::TextView text = context_.host.engine()->text();
  if (!text) return false;
  const auto shown = text.detokenize({&token, 1}, COLIBRI_SKIP_SPECIAL);
  return shown.ok() && shown->empty();
}

void Generation::decide_finish(Answer& answer, std::string_view reason) {
  Choice& choice = answer.choice;
  const bool ended_by_token = reason == "stop" && answer.last_text_empty && is_special(answer.last_token);
  if (reason == "length") {
    choice.finish = FinishReason::kLength;
  } else if (answer.called_tool) {
    choice.finish = FinishReason::kToolCalls;
  } else {
    choice.finish = FinishReason::kStop;
    if (!ended_by_token && !plan_.options.stop.empty()) {
      const auto text = context_.host.engine()->text().detokenize(answer.ids, COLIBRI_SKIP_SPECIAL);
      choice.stop = text.ok() ? first_stop(*text, plan_.options.stop) : std::string();
      if (!choice.stop.empty()) choice.finish = FinishReason::kStopString;
    }
  }
  if (ended_by_token && !plan_.end_token_logprob && !answer.pending.empty()) answer.pending.pop_back();
}

void Generation::take_end(Answer& answer, const colibri_event& event) {
  if (event.status != COLIBRI_OK)
    return fail(api_error_of({event.status, event.error != nullptr ? event.error : "cancelled"}, plan_.blame));
  const std::string reason = event.finish_reason;
  auto deltas = deltas_of(answer, text_of(event), true);
  if (!deltas) return;
  if (!text_of(event).empty()) answer.last_text_empty = answer.last_text_empty && reason == "stop";
  decide_finish(answer, reason);
  show(answer, *std::move(deltas));
  const std::vector<uint32_t>& experts = answer.sequence->experts();
  experts_.resize(std::max(experts_.size(), experts.size()));
  for (size_t i = 0; i < experts.size(); ++i) experts_[i] += experts[i];
  answer.sequence.reset();
  ++n_ended_;
  const bool last = n_ended_ == n_answers();
  if (plan_.options.stream) {
    open_stream();
    out_ += plan_.format->finish(answer.choice, answer.pending, last ? extras() : json::object());
    answer.pending.clear();
  } else {
    answer.choice.logprobs = std::move(answer.pending);
  }
  if (last) return complete();
  if (n_submitted_ < n_answers()) submit_next();
}

// ---- the answer --------------------------------------------------------------------------------------------------

// A prompt counts once, however many answers it gets.
Usage Generation::usage() const {
  Usage sum;
  const auto n = static_cast<size_t>(plan_.options.n);
  for (size_t i = 0; i < answers_.size(); ++i) {
    const Answer& answer = answers_[i];
    if (i % n == 0) sum.prompt_tokens += static_cast<int64_t>(prompt_of(i).size());
    if (i % n == 0) sum.cached_tokens += answer.n_cached;
    sum.completion_tokens += answer.n_generated;
    sum.reasoning_tokens += answer.n_reasoning;
    Timings& t = sum.timings;
    if (answer.begun_s >= 0) t.queued_s = std::max(t.queued_s, answer.begun_s);
    if (answer.first_token_s < 0) continue;
    t.prompt_s = std::max(t.prompt_s, answer.first_token_s - answer.begun_s);
    t.answer_s = std::max(t.answer_s, answer.last_token_s - answer.first_token_s);
  }
  return sum;
}

json::object Generation::extras() const {
  json::object members;
  if (plan_.timings) members["timings"] = timings_json(usage());
  if (!experts_.empty()) members["expert_activations"] = expert_activations();
  return members;
}

json::object Generation::expert_activations() const {
  const colibri_info info = context_.host.engine()->info();
  const auto width = static_cast<size_t>(info.n_experts);
  json::array layers;
  for (size_t layer = 0; layer < static_cast<size_t>(info.n_layers); ++layer) {
    const uint64_t* counts = experts_.data() + layer * width;
    std::vector<size_t> used;
    for (size_t e = 0; e < width; ++e)
      if (counts[e] > 0) used.push_back(e);
    if (used.empty()) continue;
    std::stable_sort(used.begin(), used.end(), [counts](size_t a, size_t b) { return counts[a] > counts[b]; });
    json::array pairs;
    for (const size_t e : used) pairs.push_back(json::array{e, counts[e]});
    layers.push_back(json::object{{"layer", layer}, {"experts", std::move(pairs)}});
  }
  return {{"layers", std::move(layers)}};
}

void Generation::open_stream() {
  if (streaming_) return;
  streaming_ = true;
  responder_->begin_stream();
  out_ += plan_.format->begin(usage());
}

// Writing may find that the client has gone, so it is the last thing that is done.
void Generation::flush() {
  if (out_.empty()) return;
  last_write_ = Clock::now();
  responder_->write(std::exchange(out_, {}));
}

void Generation::complete() {
  const Usage total = usage();
  place_->finish(waited_s() - total.timings.queued_s);
  responder_->count_tokens(total.prompt_tokens, total.cached_tokens, total.completion_tokens);
  leave();
  if (!plan_.options.stream) {
    std::vector<Choice> choices;
    for (Answer& answer : answers_) choices.push_back(std::move(answer.choice));
    return responder_->respond(plan_.format->body(choices, total, extras()));
  }
  out_ += plan_.format->end(total);
  flush();
  responder_->end_stream();
}

void Generation::fail(const ApiError& error) {
  if (over_) return;
  if (error.status >= 500 && error.code != "shutting_down")
    context_.log.line(LogLevel::kError, "request " + plan_.id + ": " + error.message);
  const Usage total = usage();
  responder_->count_tokens(total.prompt_tokens, total.cached_tokens, total.completion_tokens);
  leave();
  if (!streaming_) return responder_->respond(plan_.format->refusal(error));
  out_ += plan_.format->error(error);
  flush();
  responder_->end_stream();
}

void Generation::client_gone() {
  if (!over_) leave();
}

// What still runs is cancelled first, all of it, and freed elsewhere: that may take as long as a step.
void Generation::leave() {
  over_ = true;
  bell_->silence();
  for (Answer& answer : answers_)
    if (answer.sequence) answer.sequence->cancel();
  for (Answer& answer : answers_)
    if (answer.sequence) context_.burying.bury(std::move(answer.sequence));
  place_.reset();
  running_ = false;
  context_.remove(this);
}

// ---- time --------------------------------------------------------------------------------------------------------

void Generation::schedule_tick() {
  const int delay = std::min(kMostTickMs, context_.settings.keep_alive_ms);
  responder_->post_later(delay, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tick();
  });
}

void Generation::tick() {
  if (over_) return;
  if (place_->waiting() && waited_s() > context_.settings.queue_timeout_s)
    return fail({429,
                 "the request waited " + std::to_string(context_.settings.queue_timeout_s) +
                     " seconds for its turn; try again later",
                 "queue_timeout",
                 {},
                 {},
                 context_.admission.retry_after_s()});
  const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_write_).count();
  schedule_tick();
  if (!plan_.options.stream || silence < context_.settings.keep_alive_ms) return;
  const bool taken = responder_->queued_bytes() == 0;
  open_stream();
  if (taken) out_ += plan_.format->ping();
  flush();
}

}  // namespace colibri::server

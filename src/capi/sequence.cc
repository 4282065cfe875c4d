#include "engine/sequence.h"

#include <cstddef>
#include <cstring>

#include "capi/border.h"
#include "capi/handles.h"

using namespace colibri;

namespace {

sampling::SamplingParams sampling_params(const colibri_request& r) {
  sampling::SamplingParams p;
  p.temperature = r.temperature;
  p.top_k = r.top_k;
  p.top_p = r.top_p;
  p.min_p = r.min_p;
  p.repetition_penalty = r.repetition_penalty;
  p.presence_penalty = r.presence_penalty;
  p.frequency_penalty = r.frequency_penalty;
  p.seed = r.seed;
  for (size_t i = 0; i < r.n_logit_bias; ++i) p.logit_bias.emplace_back(r.logit_bias[i].token, r.logit_bias[i].bias);
  return p;
}

engine::RoutingListener routing_listener(const colibri_request& r) {
  return [call = r.routing, user = r.routing_user](int layer, int64_t first, int64_t n, const int32_t* ids,
                                                   const float* weights, int top_k) {
    return call(user, layer, static_cast<int32_t>(first), static_cast<int32_t>(n), ids, weights, top_k) == 0;
  };
}

Result<engine::Request> engine_request(const colibri_request& r) {
  if (r.prompt == nullptr && r.n_prompt > 0) return capi::missing_argument("prompt");
  if (r.stop == nullptr && r.n_stop > 0) return capi::missing_argument("stop");
  if (r.logit_bias == nullptr && r.n_logit_bias > 0) return capi::missing_argument("logit_bias");
  if (r.kept_special == nullptr && r.n_kept_special > 0) return capi::missing_argument("kept_special");
  engine::Request request;
  request.prompt.assign(r.prompt, r.prompt + r.n_prompt);
  request.max_tokens = r.max_tokens;
  request.sampling = sampling_params(r);
  for (size_t i = 0; i < r.n_stop; ++i) {
    if (r.stop[i] == nullptr || *r.stop[i] == '\0') return Error{ErrorCode::kUsage, "a stop string is empty"};
    request.stop.emplace_back(r.stop[i]);
  }
  request.ignore_eos = r.ignore_eos != 0;
  request.keep_special = r.keep_special != 0;
  request.kept_special.assign(r.kept_special, r.kept_special + r.n_kept_special);
  request.logprobs = r.logprobs;
  request.echo = r.echo != 0;
  if (r.constraint != nullptr) request.constraint = r.constraint;
  if (r.client != nullptr) request.client = r.client;
  if (r.prefix_key != nullptr) request.prefix_key = r.prefix_key;
  if (r.routing != nullptr) request.routing = routing_listener(r);
  if (r.notify != nullptr) request.notify = [call = r.notify, user = r.notify_user] { call(user); };
  return request;
}

// The caller's request; what an older header does not know keeps its default.
Result<engine::Request> copy_request(const colibri_engine* engine, const colibri_request& request) {
  if (request.struct_size < sizeof(size_t)) return capi::missing_size("request");
  colibri_request full;
  colibri_request_init(engine, &full);
  std::memcpy(&full, &request, std::min(request.struct_size, sizeof(full)));
  return engine_request(full);
}

// The engine may be in the middle of a step that calls the routing callback, whose data goes with the sequence.
void wait_for_end(colibri_sequence& sequence) {
  while (!sequence.ended && sequence.sequence->stream.pop(-1, sequence.event))
    sequence.ended = sequence.event.kind == engine::EventKind::kEnd;
}

colibri_event_kind kind_of(engine::EventKind kind) {
  switch (kind) {
    case engine::EventKind::kToken:
      return COLIBRI_EVENT_TOKEN;
    case engine::EventKind::kEnd:
      return COLIBRI_EVENT_END;
    case engine::EventKind::kProgress:
      return COLIBRI_EVENT_PROGRESS;
    case engine::EventKind::kPromptToken:
      return COLIBRI_EVENT_PROMPT_TOKEN;
  }
  return COLIBRI_EVENT_NONE;
}

colibri_event describe(const engine::TokenEvent& event) {
  colibri_event out{};
  out.kind = kind_of(event.kind);
  out.token = event.token;
  out.text = event.text.c_str();
  out.text_size = event.text.size();
  out.n_prompt_done = static_cast<int32_t>(event.prompt_done);
  out.seconds = event.seconds;
  out.n_prompt_cached = static_cast<int32_t>(event.prompt_cached);
  out.logprob = event.logprob;
  static_assert(sizeof(colibri_logprob) == sizeof(sampling::TokenLogprob) &&
                offsetof(colibri_logprob, logprob) == offsetof(sampling::TokenLogprob, logprob));
  out.top = reinterpret_cast<const colibri_logprob*>(event.top.data());
  out.n_top = event.top.size();
  if (event.kind != engine::EventKind::kEnd) return out;
  out.finish_reason = event.finish_reason;
  const std::string_view reason = event.finish_reason;
  if (reason == "error") out.status = static_cast<colibri_status>(event.code);
  if (reason == "cancelled") out.status = COLIBRI_CANCELLED;
  if (!event.error.empty()) out.error = event.error.c_str();
  return out;
}

}  // namespace

extern "C" {

void colibri_request_init(const colibri_engine* engine, colibri_request* request) {
  if (request == nullptr) return;
  *request = {};
  request->struct_size = sizeof(colibri_request);
  request->max_tokens = -1;
  request->logprobs = -1;
  const sampling::SamplingParams p =
      engine != nullptr ? engine->engine->default_sampling() : sampling::SamplingParams{};
  request->temperature = p.temperature;
  request->top_k = p.top_k;
  request->top_p = p.top_p;
  request->min_p = p.min_p;
  request->repetition_penalty = p.repetition_penalty;
}

colibri_status colibri_submit(colibri_engine* engine, const colibri_request* request, colibri_sequence** out,
                              colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (engine == nullptr || request == nullptr || out == nullptr)
      return capi::missing_argument("engine, request or out");
    COLIBRI_ASSIGN(engine::Request copied, copy_request(engine, *request));
    auto handle = std::make_unique<colibri_sequence>();
    handle->engine = engine->engine.get();
    COLIBRI_ASSIGN(handle->sequence, engine->engine->submit(std::move(copied)));
    *out = handle.release();
    return {};
  });
}

colibri_status colibri_request_check(const colibri_request* request, int32_t vocab_size, int64_t context,
                                     colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (request == nullptr) return capi::missing_argument("request");
    COLIBRI_ASSIGN(const engine::Request copied, copy_request(nullptr, *request));
    COLIBRI_TRY(engine::check_parameters(copied, vocab_size));
    if (context <= 0) return {};
    return engine::check_prompt(copied.prompt, copied.max_tokens == 0 ? 0 : 1, vocab_size, context, 0);
  });
}

colibri_status colibri_next_event(colibri_sequence* sequence, int timeout_ms, colibri_event* event,
                                  colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (sequence == nullptr || event == nullptr)
      return capi::missing_argument(sequence == nullptr ? "sequence" : "event");
    if (event->struct_size < sizeof(size_t)) return capi::missing_size("event");
    colibri_event full{};
    full.kind = COLIBRI_EVENT_NONE;
    // After END there is nothing more to wait for: END is given again.
    if (sequence->ended || sequence->sequence->stream.pop(timeout_ms, sequence->event))
      full = describe(sequence->event);
    sequence->ended = sequence->ended || full.kind == COLIBRI_EVENT_END;
    full.struct_size = std::min(event->struct_size, sizeof(full));
    std::memcpy(event, &full, full.struct_size);
    return {};
  });
}

void colibri_cancel(colibri_sequence* sequence) {
  if (sequence != nullptr) sequence->sequence->cancelled.store(true);
}

colibri_status colibri_sequence_stats(const colibri_sequence* sequence, colibri_string* json, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (sequence == nullptr || json == nullptr)
      return capi::missing_argument(sequence == nullptr ? "sequence" : "json");
    if (!sequence->ended) return Error{ErrorCode::kUsage, "statistics are complete only after the END event"};
    const engine::Sequence& s = *sequence->sequence;
    return capi::export_string(engine::stats_json(s.stats, sequence->engine->facts(),
                                                  sequence->engine->store_statistics(), s.n_prompt(), s.n_generated())
                                   .dump(),
                               json);
  });
}

void colibri_sequence_free(colibri_sequence* sequence) {
  if (sequence == nullptr) return;
  sequence->sequence->cancelled.store(true);
  sequence->engine->wake();
  sequence->sequence->stream.on_arrival({});
  if (sequence->sequence->request.routing) wait_for_end(*sequence);
  delete sequence;
}

}  // extern "C"

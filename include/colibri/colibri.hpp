// colibri.hpp: C++20 over colibri.h. Header-only; link the same library.
//
// Handles are move-only and free themselves; strings and ids become std::string and std::vector. Whatever can fail
// returns an Outcome: the value, or an Error with code and one line of text. Nothing here throws, unless
// COLIBRI_HPP_EXCEPTIONS is defined before the include: then Outcome::value() of a failure throws api::Exception
// instead of ending the program. Thread-safety and lifetimes are those of colibri.h: an Engine must outlive its
// Sequences and what text() gives. Callbacks must not throw; they are called from the library's threads where colibri.h
// says so.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "colibri/colibri.h"

#if defined(COLIBRI_HPP_EXCEPTIONS)
#include <stdexcept>
#endif

namespace colibri::api {

// ---- errors
// ------------------------------------------------------------------------------------------------------------

struct Error {
  colibri_status code = COLIBRI_FAILED;
  std::string message;

  /// What a program that ends with this error should exit with.
  int exit_code() const { return colibri_exit_code(code); }
};

#if defined(COLIBRI_HPP_EXCEPTIONS)
class Exception : public std::runtime_error {
 public:
  explicit Exception(Error error) : std::runtime_error(error.message), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};
#endif

namespace detail {
[[noreturn]] inline void value_of_failure([[maybe_unused]] const Error& error) {
#if defined(COLIBRI_HPP_EXCEPTIONS)
  throw Exception(error);
#else
  std::abort();
#endif
}
}  // namespace detail

/// A T, or the Error why there is none.
template <typename T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor): so that `return value;` works
  Outcome(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Outcome*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &value(); }

  /// REQUIRES: !ok().
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  T& checked() {
    if (!ok()) detail::value_of_failure(error());
    return *std::get_if<0>(&state_);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Outcome<void> {
 public:
  Outcome() = default;
  Outcome(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  void value() const {
    if (error_) detail::value_of_failure(*error_);
  }
  /// REQUIRES: !ok().
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Outcome<void>;
using TokenIds = std::vector<int32_t>;

namespace detail {

inline Error take(colibri_status status, const colibri_error& error) { return {status, error.message}; }

inline std::string take(colibri_string& string) {
  std::string copy = string.data ? std::string(string.data, string.size) : std::string();
  colibri_string_free(&string);
  return copy;
}

inline TokenIds take(colibri_ids& ids) {
  TokenIds copy(ids.data, ids.data + ids.size);
  colibri_ids_free(&ids);
  return copy;
}

/// Calls `function(arguments..., &string, &error)` and takes the string.
template <typename Function, typename... Arguments>
Outcome<std::string> string_of(Function function, Arguments... arguments) {
  colibri_string string{};
  colibri_error error{};
  const colibri_status status = function(arguments..., &string, &error);
  std::string text = take(string);
  if (status != COLIBRI_OK) return take(status, error);
  return text;
}

}  // namespace detail

// ---- settings
// ----------------------------------------------------------------------------------------------------------

/// Every row of the settings table; the pointers live as long as the library.
inline std::vector<const colibri_setting_info*> setting_infos() {
  std::vector<const colibri_setting_info*> rows;
  for (size_t i = 0; i < colibri_setting_count(); ++i) rows.push_back(colibri_setting_at(i));
  return rows;
}

inline Status check_setting(const std::string& key, const std::string& value) {
  colibri_error error{};
  const colibri_status status = colibri_setting_check(key.c_str(), value.c_str(), &error);
  if (status != COLIBRI_OK) return detail::take(status, error);
  return {};
}

// ---- text
// --------------------------------------------------------------------------------------------------------------

/// A tokenizer and chat template that somebody else owns. False when there is none.
class TextView {
 public:
  TextView() = default;
  explicit TextView(const colibri_text* handle) : handle_(handle) {}
  explicit operator bool() const { return handle_ != nullptr; }
  const colibri_text* handle() const { return handle_; }

  /// `flags`: COLIBRI_ADD_SPECIAL, COLIBRI_PARSE_SPECIAL.
  Outcome<TokenIds> tokenize(std::string_view utf8, uint32_t flags) const {
    colibri_ids ids{};
    colibri_error error{};
    const colibri_status status = colibri_tokenize(handle_, utf8.data(), utf8.size(), flags, &ids, &error);
    TokenIds result = detail::take(ids);
    if (status != COLIBRI_OK) return detail::take(status, error);
    return result;
  }

  /// `flags`: COLIBRI_SKIP_SPECIAL.
  Outcome<std::string> detokenize(std::span<const int32_t> ids, uint32_t flags = 0) const {
    return detail::string_of(colibri_detokenize, handle_, ids.data(), ids.size(), flags);
  }

  /// What one token stands for in the middle of a text; perhaps a part of a character.
  Outcome<std::string> token_bytes(int32_t id) const { return detail::string_of(colibri_token_bytes, handle_, id); }

  /// `request_json`: {"messages": [...], ...}. `now`: "2026-02-03T04:05:06", or empty for the present.
  Outcome<std::string> apply_template(std::string_view request_json, const std::string& now = {}) const {
    return detail::string_of(colibri_apply_template, handle_, request_json.data(), request_json.size(),
                             now.empty() ? nullptr : now.c_str());
  }

 private:
  const colibri_text* handle_ = nullptr;
};

/// A tokenizer and chat template of its own, opened without the weights.
class Text {
 public:
  /// Either may be empty, but not both: see colibri_text_open.
  static Outcome<Text> open(const std::string& path, const std::string& template_file = {}) {
    colibri_text* handle = nullptr;
    colibri_error error{};
    const colibri_status status =
        colibri_text_open(path.empty() ? nullptr : path.c_str(),
                          template_file.empty() ? nullptr : template_file.c_str(), &handle, &error);
    if (status != COLIBRI_OK) return detail::take(status, error);
    return Text(handle);
  }

  TextView view() const { return TextView(handle_.get()); }
  const TextView* operator->() const { return &view_; }

 private:
  struct Close {
    void operator()(colibri_text* handle) const { colibri_text_close(handle); }
  };
  explicit Text(colibri_text* handle) : handle_(handle), view_(handle) {}
  std::unique_ptr<colibri_text, Close> handle_;
  TextView view_;
};

// ---- answers of chat models
// ---------------------------------------------------------------------------------------------

/// Reads one answer: see colibri_answer_open. The text must outlive it.
class Answer {
 public:
  static Outcome<Answer> open(const colibri_text* text, std::string_view request_json, std::string_view prompt) {
    colibri_answer* handle = nullptr;
    colibri_error error{};
    const colibri_status status = colibri_answer_open(text, request_json.data(), request_json.size(), prompt.data(),
                                                      prompt.size(), &handle, &error);
    if (status != COLIBRI_OK) return detail::take(status, error);
    return Answer(handle);
  }

  /// For Request::kept_special.
  Outcome<TokenIds> kept_special() const {
    colibri_ids ids{};
    colibri_error error{};
    const colibri_status status = colibri_answer_kept_special(handle_.get(), &ids, &error);
    TokenIds result = detail::take(ids);
    if (status != COLIBRI_OK) return detail::take(status, error);
    return result;
  }

  /// For Request::constraint; empty: free.
  Outcome<std::string> constraint() const { return detail::string_of(colibri_answer_constraint, handle_.get()); }
  /// The deltas as a JSON array.
  Outcome<std::string> push(std::string_view utf8) {
    return detail::string_of(colibri_answer_push, handle_.get(), utf8.data(), utf8.size());
  }
  Outcome<std::string> finish() { return detail::string_of(colibri_answer_finish, handle_.get()); }

 private:
  struct Free {
    void operator()(colibri_answer* handle) const { colibri_answer_free(handle); }
  };
  explicit Answer(colibri_answer* handle) : handle_(handle) {}
  std::unique_ptr<colibri_answer, Free> handle_;
};

// ---- reports
// -----------------------------------------------------------------------------------------------------------

/// JSON that may be there although something was found wrong: then `status` is not COLIBRI_OK and `message` says what.
struct Report {
  colibri_status status = COLIBRI_OK;
  std::string message;
  std::string json;
};

inline Outcome<std::string> inspect(const std::string& path, bool tensors) {
  return detail::string_of(colibri_inspect, path.c_str(), static_cast<int>(tensors));
}

/// About this machine; `path`: whose disk is measured, may be empty.
inline Outcome<std::string> doctor(const std::string& path) { return detail::string_of(colibri_doctor, path.c_str()); }

inline Report validate(const std::string& path, bool tokenizer_only) {
  colibri_string json{};
  colibri_error error{};
  const colibri_status status = colibri_validate(path.c_str(), static_cast<int>(tokenizer_only), &json, &error);
  return {status, error.message, detail::take(json)};
}

/// `what`: "kernels" or "router".
inline Report self_test(const std::string& what) {
  colibri_string json{};
  colibri_error error{};
  const colibri_status status = colibri_self_test(what.c_str(), &json, &error);
  return {status, error.message, detail::take(json)};
}

// ---- the router alone
// --------------------------------------------------------------------------------------------------

/// A router's rule with its defaults; set experts and k.
inline colibri_router router() {
  colibri_router rule;
  colibri_router_init(&rule);
  return rule;
}

/// See colibri_route. logits [rows, experts] -> ids and weights [rows, k]; the spans' sizes say how many rows.
inline Status route(const colibri_router& rule, std::span<const float> logits, std::span<int32_t> ids,
                    std::span<float> weights) {
  const auto experts = static_cast<size_t>(rule.experts > 0 ? rule.experts : 1);
  const size_t rows = logits.size() / experts, chosen = rows * static_cast<size_t>(rule.k > 0 ? rule.k : 1);
  if (rows * experts != logits.size() || ids.size() != chosen || weights.size() != chosen)
    return Error{COLIBRI_USAGE, "route: " + std::to_string(logits.size()) + " logits, " + std::to_string(ids.size()) +
                                    " ids and " + std::to_string(weights.size()) + " weights are no rows of " +
                                    std::to_string(rule.experts) + " experts and " + std::to_string(rule.k) +
                                    " choices"};
  colibri_error error{};
  const colibri_status status =
      colibri_route_with(&rule, logits.data(), static_cast<int64_t>(rows), ids.data(), weights.data(), &error);
  if (status != COLIBRI_OK) return detail::take(status, error);
  return {};
}

// ---- engine
// ------------------------------------------------------------------------------------------------------------

struct Options {
  std::vector<std::pair<std::string, std::string>> settings;  ///< key, value; what is not named keeps its default
  int64_t wanted_context = 0;  ///< with context = auto: plan this many tokens per sequence; 0: the engine chooses
  bool without_text = false;   ///< do not open the tokenizer: for callers that bring token ids
  /// Return false to stop loading. Called from the loading thread.
  std::function<bool(uint64_t done_bytes, uint64_t total_bytes)> progress;
  /// level 0 error to 3 debug. Called from any thread, as long as the engine lives.
  std::function<void(int level, std::string_view line)> log;
};

namespace detail {

/// Options as the library wants them; refers to the Options, which the callbacks need as long as they are called.
class RawOptions {
 public:
  explicit RawOptions(const Options& options) {
    for (const auto& [key, value] : options.settings) settings_.push_back({key.c_str(), value.c_str()});
    colibri_options_init(&raw_);
    raw_.settings = settings_.data();
    raw_.n_settings = settings_.size();
    raw_.wanted_context = options.wanted_context;
    raw_.without_text = options.without_text ? 1 : 0;
    auto* user = const_cast<Options*>(&options);  // C has no other way; read only
    if (options.progress) {
      raw_.progress = [](void* o, uint64_t done, uint64_t total) {
        return static_cast<const Options*>(o)->progress(done, total) ? 0 : 1;
      };
      raw_.progress_user = user;
    }
    if (options.log) {
      raw_.log = [](void* o, int level, const char* line) { static_cast<const Options*>(o)->log(level, line); };
      raw_.log_user = user;
    }
  }
  RawOptions(const RawOptions&) = delete;
  RawOptions& operator=(const RawOptions&) = delete;
  const colibri_options* get() const { return &raw_; }

 private:
  colibri_options raw_{};
  std::vector<colibri_setting> settings_;
};

}  // namespace detail

/// What a run with these options would keep where: JSON, see colibri_plan.
inline Outcome<std::string> plan(const std::string& path, const Options& options) {
  return detail::string_of(colibri_plan, path.c_str(), detail::RawOptions(options).get());
}

/// Experts of a MoE layer for positions first ..: [n, top_k] each. Return false to stop.
using RoutingCallback = std::function<bool(int32_t layer, int32_t first, int32_t n, const int32_t* ids,
                                           const float* weights, int32_t top_k)>;

namespace detail {
/// `user`: a RoutingCallback.
inline int call_routing(void* user, int32_t layer, int32_t first, int32_t n, const int32_t* ids, const float* weights,
                        int32_t top_k) {
  return (*static_cast<const RoutingCallback*>(user))(layer, first, n, ids, weights, top_k) ? 0 : 1;
}
}  // namespace detail

struct Request {
  TokenIds prompt;
  int32_t max_tokens = -1;  ///< -1: until the context is full
  double temperature = 1, top_p = 1, min_p = 0;
  double repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  int32_t top_k = 0;
  uint64_t seed = 0;
  std::vector<colibri_logit_bias> logit_bias;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool keep_special = false;
  TokenIds kept_special;
  int32_t logprobs = -1;
  bool echo = false;
  std::string constraint, client, prefix_key;  ///< empty: none
  /// See colibri_request. Engine::submit keeps copies as long as the Sequence lives.
  RoutingCallback routing;
  std::function<void()> notify;
};

namespace detail {

/// What the library calls while a sequence lives.
struct Callbacks {
  RoutingCallback routing;
  std::function<void()> notify;
};
inline int call_sequence_routing(void* user, int32_t layer, int32_t first, int32_t n, const int32_t* ids,
                                 const float* weights, int32_t top_k) {
  return call_routing(&static_cast<Callbacks*>(user)->routing, layer, first, n, ids, weights, top_k);
}
inline void call_notify(void* user) { static_cast<Callbacks*>(user)->notify(); }

/// A Request as the library wants it; refers to the Request.
class RawRequest {
 public:
  /// `callbacks` must live as long as the sequence.
  RawRequest(const colibri_engine* engine, const Request& request, Callbacks* callbacks = nullptr)
      : raw_(defaults(engine)) {
    for (const std::string& stop : request.stop) stops_.push_back(stop.c_str());
    raw_.prompt = request.prompt.data();
    raw_.n_prompt = request.prompt.size();
    raw_.max_tokens = request.max_tokens;
    raw_.temperature = request.temperature;
    raw_.top_p = request.top_p;
    raw_.min_p = request.min_p;
    raw_.repetition_penalty = request.repetition_penalty;
    raw_.presence_penalty = request.presence_penalty;
    raw_.frequency_penalty = request.frequency_penalty;
    raw_.top_k = request.top_k;
    raw_.seed = request.seed;
    raw_.logit_bias = request.logit_bias.data();
    raw_.n_logit_bias = request.logit_bias.size();
    raw_.stop = stops_.data();
    raw_.n_stop = stops_.size();
    raw_.ignore_eos = request.ignore_eos ? 1 : 0;
    raw_.keep_special = request.keep_special ? 1 : 0;
    raw_.kept_special = request.kept_special.data();
    raw_.n_kept_special = request.kept_special.size();
    raw_.logprobs = request.logprobs;
    raw_.echo = request.echo ? 1 : 0;
    raw_.constraint = request.constraint.c_str();
    raw_.client = request.client.c_str();
    raw_.prefix_key = request.prefix_key.c_str();
    if (callbacks == nullptr) return;
    raw_.routing = callbacks->routing ? call_sequence_routing : nullptr;
    raw_.notify = callbacks->notify ? call_notify : nullptr;
    raw_.routing_user = raw_.notify_user = callbacks;
  }
  RawRequest(const RawRequest&) = delete;
  RawRequest& operator=(const RawRequest&) = delete;

  static colibri_request defaults(const colibri_engine* engine) {
    colibri_request raw{};
    raw.struct_size = sizeof(raw);
    colibri_request_init(engine, &raw);
    return raw;
  }
  const colibri_request* get() const { return &raw_; }

 private:
  colibri_request raw_;
  std::vector<const char*> stops_;
};

}  // namespace detail

/// What Engine::submit would refuse, without an engine: see colibri_request_check.
inline Status check_request(const Request& request, int32_t vocab_size, int64_t context) {
  const detail::RawRequest raw(nullptr, request);
  colibri_error error{};
  const colibri_status status = colibri_request_check(raw.get(), vocab_size, context, &error);
  if (status != COLIBRI_OK) return detail::take(status, error);
  return {};
}

struct Event {
  colibri_event_kind kind = COLIBRI_EVENT_NONE;
  int32_t token = -1;
  std::string_view text;  ///< valid until the next call for this sequence
  int32_t n_prompt_done = 0;
  std::string_view finish_reason;
  colibri_status status = COLIBRI_OK;
  std::string_view error;
  double seconds = 0;
  int32_t n_prompt_cached = 0;
  float logprob = 0;  ///< NaN: none
  std::span<const colibri_logprob> top;
};

/// One running request. Freed (and cancelled, if necessary) by its destructor.
class Sequence {
 public:
  /// Waits up to `timeout_ms`; -1: for ever.
  Outcome<Event> next(int timeout_ms = -1) {
    colibri_event event{};
    event.struct_size = sizeof(event);
    colibri_error error{};
    const colibri_status status = colibri_next_event(handle_.get(), timeout_ms, &event, &error);
    if (status != COLIBRI_OK) return detail::take(status, error);
    const auto view = [](const char* text) { return text ? std::string_view(text) : std::string_view(); };
    return Event{event.kind,
                 event.token,
                 event.text ? std::string_view(event.text, event.text_size) : std::string_view(),
                 event.n_prompt_done,
                 view(event.finish_reason),
                 event.status,
                 view(event.error),
                 event.seconds,
                 event.n_prompt_cached,
                 event.logprob,
                 {event.top, event.n_top}};
  }

  void cancel() { colibri_cancel(handle_.get()); }
  Outcome<std::string> stats_json() const { return detail::string_of(colibri_sequence_stats, handle_.get()); }
  /// For colibri_cancel from another thread.
  colibri_sequence* handle() const { return handle_.get(); }

 private:
  friend class Engine;
  struct Free {
    void operator()(colibri_sequence* handle) const { colibri_sequence_free(handle); }
  };
  Sequence(colibri_sequence* handle, std::unique_ptr<detail::Callbacks> callbacks)
      : callbacks_(std::move(callbacks)), handle_(handle) {}
  std::unique_ptr<detail::Callbacks> callbacks_;  // outlives the handle: the library calls them
  std::unique_ptr<colibri_sequence, Free> handle_;
};

struct EvaluateCallbacks {
  /// Logits of positions first .. first + n - 1, [n, vocab_size]. Return false to stop.
  std::function<bool(int32_t first, int32_t n, std::span<const float> logits, int32_t vocab_size)> logits;
  RoutingCallback routing;
  /// Asked often, from several threads, while the model computes; return true to stop. Must be quick.
  std::function<bool()> stop;
};

/// A loaded model.
class Engine {
 public:
  Engine(Engine&&) noexcept = default;
  Engine& operator=(Engine&& other) noexcept {
    handle_ = std::move(other.handle_);  // closes the old engine while its callbacks are still there
    options_ = std::move(other.options_);
    return *this;
  }

  static Outcome<Engine> open(const std::string& path, Options options = {}) {
    Engine engine;
    engine.options_ = std::make_unique<Options>(std::move(options));
    const detail::RawOptions raw(*engine.options_);
    colibri_engine* handle = nullptr;
    colibri_error error{};
    const colibri_status status = colibri_open(path.c_str(), raw.get(), &handle, &error);
    if (status != COLIBRI_OK) return detail::take(status, error);
    engine.handle_.reset(handle);
    return engine;
  }

  colibri_info info() const {
    colibri_info info{};
    info.struct_size = sizeof(info);
    colibri_engine_info(handle_.get(), &info, nullptr);
    return info;
  }

  /// False when the model came without a tokenizer.
  TextView text() const { return TextView(colibri_engine_text(handle_.get())); }
  Outcome<std::string> stats_json() const { return detail::string_of(colibri_engine_stats, handle_.get()); }
  Outcome<std::string> metrics_json() const { return detail::string_of(colibri_engine_metrics, handle_.get()); }
  /// See colibri_engine_experts: both [n_moe_layers, n_experts], or empty.
  Status experts(std::span<uint64_t> activations, std::span<uint8_t> residency) const {
    colibri_error error{};
    const colibri_status status = colibri_engine_experts(
        handle_.get(), activations.empty() ? nullptr : activations.data(),
        residency.empty() ? nullptr : residency.data(), std::max(activations.size(), residency.size()), &error);
    if (status != COLIBRI_OK) return detail::take(status, error);
    return {};
  }
  /// The decoder layer, from 0, of each of those rows.
  std::vector<int32_t> moe_layers() const {
    std::vector<int32_t> layers(static_cast<size_t>(info().n_moe_layers));
    colibri_error error{};
    const bool told = colibri_engine_moe_layers(handle_.get(), layers.data(), &error) == COLIBRI_OK;
    return told ? layers : std::vector<int32_t>();
  }
  Status save_prefixes() {
    colibri_error error{};
    const colibri_status status = colibri_engine_save_prefixes(handle_.get(), &error);
    if (status != COLIBRI_OK) return detail::take(status, error);
    return {};
  }
  /// For functions of colibri.h that have no wrapper here.
  colibri_engine* handle() const { return handle_.get(); }

  /// Runs one sequence of tokens from position 0; blocks.
  Status evaluate(std::span<const int32_t> ids, const EvaluateCallbacks& callbacks) {
    colibri_evaluate_callbacks raw{};
    raw.struct_size = sizeof(raw);
    raw.user = const_cast<EvaluateCallbacks*>(&callbacks);
    if (callbacks.logits) raw.logits = on_logits;
    if (callbacks.routing) raw.routing = on_routing;
    if (callbacks.stop) raw.stop = on_stop;
    colibri_error error{};
    const colibri_status status = colibri_evaluate(handle_.get(), ids.data(), ids.size(), &raw, &error);
    if (status != COLIBRI_OK) return detail::take(status, error);
    return {};
  }

  /// A request with the model's own sampling defaults and no prompt.
  Request request() const {
    const colibri_request raw = detail::RawRequest::defaults(handle_.get());
    Request request;
    request.max_tokens = raw.max_tokens;
    request.temperature = raw.temperature;
    request.top_p = raw.top_p;
    request.min_p = raw.min_p;
    request.repetition_penalty = raw.repetition_penalty;
    request.presence_penalty = raw.presence_penalty;
    request.frequency_penalty = raw.frequency_penalty;
    request.top_k = raw.top_k;
    request.seed = raw.seed;
    return request;
  }

  /// Queues the request, which is copied.
  Outcome<Sequence> submit(const Request& request) {
    auto callbacks = std::make_unique<detail::Callbacks>(detail::Callbacks{request.routing, request.notify});
    const detail::RawRequest raw(handle_.get(), request, callbacks.get());
    colibri_sequence* handle = nullptr;
    colibri_error error{};
    const colibri_status status = colibri_submit(handle_.get(), raw.get(), &handle, &error);
    if (status != COLIBRI_OK) return detail::take(status, error);
    return Sequence(handle, std::move(callbacks));
  }

 private:
  Engine() = default;
  struct Close {
    void operator()(colibri_engine* handle) const { colibri_close(handle); }
  };

  static int on_logits(void* user, int32_t first, int32_t n, const float* logits, int32_t vocab_size) {
    const std::span<const float> rows(logits, static_cast<size_t>(n) * static_cast<size_t>(vocab_size));
    return static_cast<const EvaluateCallbacks*>(user)->logits(first, n, rows, vocab_size) ? 0 : 1;
  }
  static int on_routing(void* user, int32_t layer, int32_t first, int32_t n, const int32_t* ids, const float* weights,
                        int32_t top_k) {
    RoutingCallback& callback = static_cast<EvaluateCallbacks*>(user)->routing;
    return detail::call_routing(&callback, layer, first, n, ids, weights, top_k);
  }
  static int on_stop(void* user) { return static_cast<const EvaluateCallbacks*>(user)->stop() ? 1 : 0; }

  std::unique_ptr<Options> options_;  // outlives the handle: the library calls back into it
  std::unique_ptr<colibri_engine, Close> handle_;
};

}  // namespace colibri::api

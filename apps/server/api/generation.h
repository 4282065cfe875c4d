// Generation: one request for answers on its way from its place in the queue to the last byte.
//
// Submits its sequences to the engine, reads their events as they come and writes the answer. Everything runs on the
// connection's strand; from other threads come only notifications, which are posted to it, and facts(), which reads
// atomics. Lives in ApiContext until the answer is over. Invariant: exactly one answer, unless the client goes first; a
// client that goes cancels every sequence at once, also those that wait; what the client does not take stays in the
// engine's bounded streams, so the engine never waits and memory does not grow.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "answer_format.h"
#include "answer_reader.h"
#include "context.h"
#include "generation_options.h"
#include "live_sequence.h"

namespace colibri::server {

/// A request that was read, checked and tokenized.
struct GenerationPlan {
  GenerationOptions options;
  std::vector<api::TokenIds> prompts;  ///< options.n answers for each
  std::vector<AnswerReader> readers;   ///< one for each answer, or none: the text is the answer
  api::TokenIds kept_special;
  std::string constraint;
  std::string constraint_blame;  ///< the member that the constraint comes from
  std::string id;                ///< of the HTTP request, for the log
  std::string client;
  std::string blame;  ///< the member that errors of the prompt name: "messages", "prompt"
  bool timings = true;
  bool end_token_logprob = false;  ///< list the token that ends an answer, too
  std::unique_ptr<AnswerFormat> format;
};

/// Brings what the engine's thread notifies to the strand, until the answer is over: what is buried later must not keep
/// a connection alive.
class Bell {
 public:
  explicit Bell(std::shared_ptr<Responder> responder) : responder_(std::move(responder)) {}
  void ring(std::function<void()> call);
  void silence();

 private:
  std::mutex mutex_;
  std::shared_ptr<Responder> responder_;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  using Clock = std::chrono::steady_clock;

  /// Begins; answers at once when there is no place in the queue. On the strand.
  static void start(ApiContext& context, GenerationPlan plan, std::shared_ptr<Responder> responder);

  struct Facts {
    int64_t id = 0, prompt_tokens = 0, generated = 0;
    size_t n_answers = 0;
    bool running = false;
    double seconds = 0;
  };
  Facts facts() const;

 private:
  struct Answer {
    std::unique_ptr<LiveSequence> sequence;
    Choice choice;
    std::vector<TokenLogprob> pending;  // not written yet
    api::TokenIds ids;                  // what was generated, where stop strings must be found again
    int32_t last_token = -1;
    bool last_text_empty = true, called_tool = false;
    int64_t n_generated = 0, n_cached = 0, n_reasoning = 0, n_undecided = 0;  // tokens
    double begun_s = -1, first_token_s = -1, last_token_s = -1;               // since its submit
  };

  Generation(ApiContext& context, GenerationPlan plan, std::shared_ptr<Responder> responder,
             std::unique_ptr<Admission::Place> place);

  // Sequences.
  size_t n_answers() const { return answers_.size(); }
  const api::TokenIds& prompt_of(size_t answer) const;
  bool submit_next();
  colibri_request request_for(size_t answer, std::vector<const char*>& stops) const;
  void pump();
  void read(Answer& answer);
  bool reads_too_slowly() const;
  void take(Answer& answer, const colibri_event& event);
  void begin(Answer& answer, const colibri_event& event);
  void show_progress(const Answer& answer, const colibri_event& event);
  void take_prompt_token(Answer& answer, const colibri_event& event);
  void take_token(Answer& answer, const colibri_event& event);
  void count_reasoning(Answer& answer, const std::vector<Delta>& deltas);
  void take_end(Answer& answer, const colibri_event& event);
  std::optional<std::vector<Delta>> deltas_of(Answer& answer, std::string_view text, bool last);
  void show(Answer& answer, std::vector<Delta> deltas);
  void decide_finish(Answer& answer, std::string_view reason);
  bool is_special(int32_t token) const;

  // The answer.
  Usage usage() const;
  json::object extras() const;
  json::object expert_activations() const;
  /// Before anything is added to out_: formats count on being asked in order.
  void open_stream();
  void flush();
  void complete();
  void fail(const ApiError& error);
  void client_gone();
  void leave();

  // Time.
  void tick();
  void schedule_tick();
  double waited_s() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

  ApiContext& context_;
  GenerationPlan plan_;
  std::shared_ptr<Responder> responder_;
  std::shared_ptr<Bell> bell_;
  std::unique_ptr<Admission::Place> place_;
  std::vector<Answer> answers_;
  size_t n_submitted_ = 0, n_ended_ = 0;
  std::vector<uint64_t> experts_;  // counts of the answers that ended
  std::string out_;                // frames that are written when the events at hand were read
  bool streaming_ = false, over_ = false, paused_ = false;
  uint64_t seed_ = 0;
  const Clock::time_point started_;
  Clock::time_point last_write_;
  const int64_t number_;
  std::atomic<int64_t> n_generated_{0};
  std::atomic<bool> running_{false};
  int64_t n_prompt_ = 0;
};

}  // namespace colibri::server

// Engine: a loaded model and the one thread that runs it. Requests go in, token events come out.
//
// One engine thread owns sequences, scheduler, cache and decoder; there are no locks in the model. submit(), evaluate()
// and the accessors may be called from any thread. Sequences that the caller holds must be dropped before the engine.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "engine/affinity.h"
#include "engine/io_choice.h"
#include "engine/metrics.h"
#include "engine/opened_model.h"
#include "engine/pacing.h"
#include "engine/plan.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/settings.h"
#include "engine/step_routing.h"
#include "engine/text_model.h"
#include "kv/prefix_cache.h"
#include "model/decoder.h"
#include "store/byte_source.h"

namespace colibri::engine {

struct OpenOptions {
  Settings settings;
  bool without_text = false;   ///< leave tokenizer and template alone
  int64_t wanted_context = 0;  ///< with context = auto: plan this many tokens; 0: see make_plan
  std::function<bool(uint64_t done, uint64_t total)> progress;  ///< false stops the load
  std::function<void(int level, const std::string& line)> log;  ///< 0 error .. 3 debug
  /// What experts are read from while they stream, instead of the model's files: for tests with disks that fail.
  std::function<std::unique_ptr<store::ByteSource>(const formats::TensorCatalog&)> byte_source;
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> open(const std::string& path, const OpenOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const model::ModelSpec& spec() const { return model_->description.spec; }
  const model::ModelDescription& description() const { return model_->description; }
  const TextModel* text() const { return model_->text ? &*model_->text : nullptr; }
  const EngineFacts& facts() const { return facts_; }
  store::StoreStatistics store_statistics() const {
    return experts_ ? experts_->statistics() : store::StoreStatistics{};
  }
  /// [[count per expert] per MoE layer] since the engine was opened.
  Json total_activations() const;
  int64_t context() const { return plan_.decoder_limits.context; }
  const MemoryPlan& plan() const { return plan_; }
  /// As colibri_engine_metrics says.
  Json metrics_json() const;
  /// [n_moe_layers, n_experts] each: how often an expert was chosen, and where it is. Either may be empty.
  void experts(std::span<uint64_t> activations, std::span<store::ExpertStore::Place> places) const;

  sampling::SamplingParams default_sampling() const { return sampling_defaults(model_->description); }

  /// kUsage: empty prompt, ids out of range, parameters out of range. kContextOverflow: no room for one more token.
  Result<std::shared_ptr<Sequence>> submit(Request request);
  /// Runs the tokens through the model and reports to `sink`; blocks. kCancelled when the sink stops it.
  Status evaluate(const TokenIds& ids, EvaluationSink& sink);
  /// Waits until the disk has every prefix that is kept; at once where none are. kCancelled when the engine closes.
  Status save_prefixes();
  /// After a sequence's `cancelled` was set outside a signal handler: makes the engine look at once.
  void wake();

 private:
  Engine() = default;
  Status load(const std::string& path, const OpenOptions& options);
  Status load_weights(const OpenOptions& options);
  void make_slots_resident(const std::stop_token& stop);
  Status open_streaming_store(const OpenOptions& options);
  std::vector<float> read_heat(const OpenOptions& options);
  void save_heat() const;
  Status constrain(Sequence& sequence);
  std::shared_ptr<Sequence> enqueue(std::shared_ptr<Sequence> sequence);

  void run();
  bool wait_for_work();
  void keep_within_limit();
  void drop_cancelled();
  void reap();

  // Who starts, and from where (admission.cc).
  void admit();
  size_t pick(const Scheduler::Waiting& waiting);
  bool may_start(const Sequence& sequence);
  bool in_memory(int expert) const;
  bool too_many_misses() const;
  void start(Sequence& sequence);
  bool shares_prefixes(const Sequence& sequence) const;
  bool will_be_computed(const Sequence& sequence) const;
  void restore_prefix(Sequence& sequence);
  void keep_prefix(const ScheduledSegment& segment);
  bool tend_prefixes();
  void publish_prefixes();
  Status open_prefixes(const OpenOptions& options);

  // Passes (step.cc).
  void step();
  template <typename Pass>
  bool guard_pass(const PassPlan& plan, Pass pass);
  Status decode_pass();
  Status prefill_slice();
  void begin_prefill(const PassPlan& plan);
  void end_prefill(const PassPlan& plan);
  void watch(const PassPlan& plan, int64_t new_rows);
  void finish_rows(const PassPlan& plan);
  double credit_reading(const PassPlan& plan, double waited_before);
  void fail_pass(const PassPlan& plan, const Error& error);
  bool concerns(const ScheduledSegment& segment, const Error& error) const;
  void rewind(const ScheduledSegment& segment);
  void charge(Cause cause);
  void charge_pass(Cause computing, Cause waiting, double waited);

  // What comes out of them (emit.cc).
  template <typename Sink>
  Status each_logit_row(const ScheduledSegment& segment, Rows hidden, int64_t first, Sink sink);
  void report_evaluations(const PassPlan& plan, Rows hidden);
  Status report_logits(const ScheduledSegment& segment, Rows hidden);
  void report_progress(const PassPlan& plan);
  void echo_prompts(const PassPlan& plan, Rows hidden);
  void echo_token(Sequence& sequence, std::span<const float> logits);
  void add_logprobs(const Sequence& sequence, std::span<const float> logits, TokenEvent& event);
  void sample_and_emit(const PassPlan& plan, Rows hidden);
  Result<TokenId> sample(Sequence& sequence, std::span<const float> logits);
  TokenEvent& new_event(EventKind kind, const Sequence& sequence);
  void emit(Sequence& sequence, TokenId token, std::span<const float> logits);
  void count_token(Sequence& sequence, double now);
  void finish(Sequence& sequence, const char* reason, const Error* error = nullptr);
  void finish_with(Sequence& sequence, const Error& error);
  bool is_end_of_text(TokenId id) const;

  std::unique_ptr<OpenedModel> model_;  // experts are read from its files
  EngineFacts facts_;
  IoChoice io_;
  std::string heat_path_;       // empty: heat is not kept
  bool own_heat_path_ = false;  // chosen by us, not by the user
  std::function<void(int level, const std::string& line)> log_;
  MemoryPlan plan_;
  platform::Arena weight_arena_, slot_arena_;
  std::jthread slot_filler_;  // ends before the arena
  std::unique_ptr<model::ModelWeights> weights_;
  std::unique_ptr<store::ExpertStore> experts_;
  std::unique_ptr<compute::Backend> backend_;
  std::optional<kv::KvCache> cache_;
  std::optional<kv::StateCache> states_;
  std::optional<Affinity> affinity_;  // unless first come is first served
  int64_t n_admissions_ = 0;
  bool slot_freed_ = false;  // since those who wait were looked at
  // Calls of save_prefixes(): guarded by mutex_, with the condition saved_.
  int64_t saves_wanted_ = 0, saves_begun_ = 0, saves_ended_ = 0;
  double step_miss_seconds_ = 0;  // that a step may wait for experts before nobody else is let in
  double wait_per_row_ = 0;       // fading mean of what a row of a decode pass waits
  std::optional<model::Decoder> decoder_;
  std::optional<Scheduler> scheduler_;
  std::optional<Pacing> pacing_;
  double prefill_seconds_ = 0;    // of the pass that is under way
  int32_t experts_per_part_ = 1;  // of a feed-forward over prompts while somebody decodes
  EngineMetrics metrics_;
  std::array<double, kCauses> step_seconds_{};  // of the present step
  Clock::time_point charged_until_;
  std::optional<StepRouting> routing_;
  std::vector<int64_t> logit_rows_;         // scratch: rows of the last forward() whose logits are wanted
  std::vector<Sequence*> logit_sequences_;  // scratch: whose they are
  std::optional<sampling::SamplerScratch> sampler_scratch_;
  std::once_flag token_texts_built_;  // at the first request that needs them
  sampling::TokenTexts token_texts_;
  TokenEvent event_;           // scratch: the event being made
  std::string decoded_;        // scratch: what the detokenizer gave
  int32_t sampled_vocab_ = 0;  // ids beyond it are padding
  Clock::time_point limit_checked_, prefixes_published_;
  uint64_t read_before_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_, saved_;
  std::deque<std::shared_ptr<Sequence>> incoming_;  // guarded by mutex_
  bool stop_ = false;                               // guarded by mutex_
  bool poked_ = false;                              // guarded by mutex_
  std::unique_ptr<kv::PrefixCache> prefixes_;  // null: none are kept. Its threads call wake(): they end before that
  std::thread thread_;
};

}  // namespace colibri::engine

// Opening, submitting, closing. The thread that computes is in step.cc.
#include "engine/engine.h"

#include <algorithm>
#include <array>

#include "engine/io_choice.h"
#include "platform/memory.h"
#include "store/heat_file.h"
#include "store/streaming_store.h"

namespace colibri::engine {
namespace {

constexpr size_t kTokenText = 256;  // bytes of a token's text that need no memory in the token loop
// While somebody decodes, a feed-forward over prompts stands back between so many parts of its experts.
constexpr int kFeedForwardParts = 4;

// Room for n elements in pages that are there, so that growing faults none in.
template <typename T>
void reserve_touched(std::vector<T>& v, size_t n) {
  const size_t size = v.size();
  v.resize(std::max(size, n));
  v.resize(size);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr std::array<std::string_view, 4> kLogLevels = {"error", "warn", "info", "debug"};

void log(const OpenOptions& options, std::string_view level, const std::string& line) {
  const auto rank = [](std::string_view name) {
    return std::find(kLogLevels.begin(), kLogLevels.end(), name) - kLogLevels.begin();
  };
  if (options.log && rank(level) <= rank(options.settings.log_level)) options.log(static_cast<int>(rank(level)), line);
}

// Settings that are accepted but steer what a model with resident experts does not do.
void log_idle_settings(const OpenOptions& options, bool streams) {
  const Settings& given = options.settings;
  const Settings usual;
  if (given.stream_count != usual.stream_count)
    log(options, "info", "stream_count has no effect: there is no GPU back end");
  if (streams) return;
  const auto note = [&options](const char* key) {
    log(options, "info", std::string(key) + " has no effect: all experts are in memory");
  };
  if (given.expert_cache_policy != usual.expert_cache_policy) note("expert_cache_policy");
  if (given.lfu_threshold != usual.lfu_threshold) note("lfu_threshold");
  if (given.heat_file != usual.heat_file && given.heat_file != "off") note("heat_file");
  if (given.prefetch_weight > 0) note("prefetch_weight");
  if (given.io == "direct") note("io");
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const std::string& path, const OpenOptions& options) {
  std::unique_ptr<Engine> engine(new Engine());
  COLIBRI_TRY(engine->load(path, options));
  engine->thread_ = std::thread([raw = engine.get()] { raw->run(); });
  return engine;
}

Status Engine::load(const std::string& path, const OpenOptions& options) {
  const Clock::time_point start = Clock::now();
  log_ = options.log;
  COLIBRI_ASSIGN(model_, OpenedModel::open(path, options.without_text));
  COLIBRI_ASSIGN(plan_, make_plan(spec(), *model_->weights, options.settings, options.wanted_context));
  if (!plan_.note.empty()) log(options, "warn", plan_.note);
  if (model_->text && !model_->text->tokenizer()->note().empty())
    log(options, "warn", model_->text->tokenizer()->note());
  log_idle_settings(options, plan_.streams);
  io_ = choose_io(model_->catalog, *model_->weights, plan_, options.settings);
  log(options, "debug",
      "planned " + std::to_string(plan_.planned_bytes()) + " of " + std::to_string(plan_.budget_bytes) + " bytes for " +
          std::to_string(plan_.kv.n_slots) + " sequences of " + std::to_string(context()) + " positions");
  COLIBRI_ASSIGN(backend_, compute::create_cpu_backend(plan_.backend));
  COLIBRI_TRY(load_weights(options));

  COLIBRI_ASSIGN(cache_, kv::KvCache::create(plan_.kv));
  COLIBRI_ASSIGN(states_, kv::StateCache::create(plan_.states));
  COLIBRI_TRY(open_prefixes(options));
  COLIBRI_ASSIGN(decoder_,
                 model::Decoder::create({&spec(), weights_.get(), experts_.get(), &*cache_, &*states_, backend_.get()},
                                        plan_.decoder_limits));
  const Settings& settings = options.settings;
  scheduler_.emplace(SchedulerLimits{plan_.prefill_chunk, settings.max_batch_size, settings.parallel});
  const int parts = plan_.streams || !experts_ ? 1 : kFeedForwardParts;
  pacing_.emplace(settings.prefill_share, plan_.prefill_chunk, parts);
  experts_per_part_ = std::max(1, (spec().moe.n_stored() + parts - 1) / parts);
  step_miss_seconds_ = settings.step_miss_seconds;
  if (plan_.streams && settings.batching == "routing")
    affinity_.emplace(static_cast<size_t>(spec().n_moe_layers()) * static_cast<size_t>(spec().moe.router.n_experts));
  routing_.emplace(spec());
  sampler_scratch_.emplace(spec().vocab_size);
  decoded_.reserve(kTokenText);
  event_.text.reserve(kTokenText);
  logit_rows_.reserve(static_cast<size_t>(plan_.decoder_limits.max_rows));
  logit_sequences_.reserve(static_cast<size_t>(settings.parallel));
  sampled_vocab_ = text() != nullptr ? text()->tokenizer()->vocab_size() : spec().vocab_size;
  facts_ = {path,
            seconds_since(start),
            plan_.budget_bytes,
            plan_.planned_bytes(),
            backend_->isa(),
            backend_->threads(),
            spec().n_moe_layers(),
            spec().moe.router.n_experts,
            io_.name};
  return {};
}

Status Engine::load_weights(const OpenOptions& options) {
  using platform::Pages;
  const int64_t resident_bytes = plan_.streams ? 0 : plan_.expert_bytes;
  COLIBRI_ASSIGN(weight_arena_, platform::Arena::allocate(plan_.dense_bytes + resident_bytes, Pages::kOnFirstTouch));
  COLIBRI_ASSIGN(slot_arena_, platform::Arena::allocate(plan_.expert_bytes - resident_bytes, Pages::kOnFirstTouch));
  COLIBRI_ASSIGN(const auto staging_arena, platform::Arena::allocate(plan_.staging_bytes, Pages::kOnFirstTouch));
  const std::span<std::byte> staging(staging_arena.data(), static_cast<size_t>(plan_.staging_bytes));
  uint64_t done = 0;
  const auto total =
      static_cast<uint64_t>(plan_.streams ? model_->weights->dense_file_bytes() : model_->weights->file_bytes());
  const store::LoadProgress progress = [&](int64_t bytes) {
    done += static_cast<uint64_t>(bytes);
    return !options.progress || options.progress(done, total);
  };
  if (options.progress && !options.progress(0, total)) return Error{ErrorCode::kCancelled, "loading was interrupted"};
  if (plan_.streams) slot_filler_ = std::jthread([this](const std::stop_token& stop) { make_slots_resident(stop); });
  std::vector<store::LoadJob> jobs;
  COLIBRI_ASSIGN(weights_, model_->weights->place_dense(weight_arena_, jobs, progress));
  if (!plan_.streams && !model_->weights->experts().empty())
    experts_ = store::make_resident_store(model_->weights->experts(), spec().n_moe_layers(), spec().moe.n_stored(),
                                          weight_arena_, jobs);
  const auto cache = io_.access == platform::Access::kBuffered ? store::PageCache::kKeep : store::PageCache::kForget;
  COLIBRI_TRY(store::load_matrices(model_->catalog, jobs, plan_.loading_threads, staging, progress, cache));
  return plan_.streams ? open_streaming_store(options) : Status();
}

// Slots become memory while the disk is busy with the rest; a reader that comes first makes its slot memory itself.
void Engine::make_slots_resident(const std::stop_token& stop) {
  constexpr int64_t kPiece = int64_t{32} << 20;
  const int64_t bytes = slot_arena_.size_bytes();
  for (int64_t first = 0; first < bytes && !stop.stop_requested(); first += kPiece)
    if (!slot_arena_.make_resident(first, std::min(kPiece, bytes - first)).ok()) return;
}

Status Engine::open_streaming_store(const OpenOptions& options) {
  const Settings& settings = options.settings;
  const IoChoice& io = io_;
  // What loading left in the page cache would only be in the way: it counts towards a group's limit.
  if (io.access != platform::Access::kBuffered)
    for (const platform::File& file : model_->catalog.files()) file.expect_no_more_reads(0, 0);
  log(options, io.refused ? "warn" : "info",
      std::to_string(plan_.slots.slots()) + " of " + std::to_string(model_->weights->experts().size()) +
          " experts have room; the others are read when they are wanted, io " + io.name + ": " + io.reason);
  std::unique_ptr<store::ByteSource> source = options.byte_source ? options.byte_source(model_->catalog) : nullptr;
  if (source == nullptr) {
    COLIBRI_ASSIGN(source, store::open_byte_source(model_->catalog, io.access));
  }
  store::StreamingOptions streaming;
  streaming.policy = settings.expert_cache_policy == "lru"   ? store::PolicyKind::kLru
                     : settings.expert_cache_policy == "lfu" ? store::PolicyKind::kLfu
                                                             : store::PolicyKind::kAuto;
  streaming.lfu_threshold = settings.lfu_threshold;
  streaming.slots = plan_.slots;
  streaming.readers = plan_.readers;
  streaming.least_slots = std::min(spec().moe.router.top_k, spec().moe.n_stored());
  streaming.probe_bytes_per_second = io.probe_bytes_per_second;
  streaming.read_timeout = std::chrono::seconds(settings.read_timeout);
  streaming.heat = read_heat(options);
  COLIBRI_ASSIGN(experts_,
                 store::make_streaming_store(model_->weights->experts(), spec().n_moe_layers(), spec().moe.n_stored(),
                                             {slot_arena_.data(), static_cast<size_t>(slot_arena_.size_bytes())},
                                             std::move(source), std::move(streaming)));
  return {};
}

// What an earlier run left, if it left anything good.
std::vector<float> Engine::read_heat(const OpenOptions& options) {
  const std::string& setting = options.settings.heat_file;
  if (setting == "off") return {};
  const uint64_t identity = store::model_identity(model_->catalog);
  own_heat_path_ = setting == "auto";
  heat_path_ = own_heat_path_ ? store::default_heat_path(identity) : setting;
  if (heat_path_.empty()) return {};
  auto heat = store::read_heat(heat_path_, identity, spec().n_moe_layers(), spec().moe.n_stored());
  if (!heat.ok()) {
    log(options, "warn", heat.error().message);
    return {};
  }
  return heat->has_value() ? std::move((*heat)->values) : std::vector<float>();
}

// Called when nothing runs any more. What cannot be saved costs the next start some time, nothing else.
void Engine::save_heat() const {
  if (heat_path_.empty() || !experts_) return;
  const Status saved = store::write_heat(heat_path_, store::model_identity(model_->catalog),
                                         {spec().n_moe_layers(), spec().moe.n_stored(), experts_->heat()},
                                         own_heat_path_ ? store::Foreign::kReplace : store::Foreign::kKeep);
  if (!saved.ok() && log_) log_(1, "heat of the experts is not kept for the next run: " + saved.error().message);
}

Engine::~Engine() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  saved_.notify_all();
  save_heat();
}

void Engine::wake() {
  {
    const std::lock_guard lock(mutex_);
    poked_ = true;
  }
  wake_.notify_one();
}

Json Engine::total_activations() const {
  Json layers{Json::Array{}};
  for (int layer = 0; experts_ && layer < experts_->n_layers(); ++layer) {
    Json::Array counts;
    for (int expert = 0; expert < experts_->n_experts(); ++expert)
      counts.emplace_back(experts_->activations(layer, expert));
    layers.push_back(std::move(counts));
  }
  return layers;
}

void Engine::experts(std::span<uint64_t> activations, std::span<store::ExpertStore::Place> places) const {
  for (size_t i = 0; experts_ && i < std::max(activations.size(), places.size()); ++i) {
    const int layer = static_cast<int>(i) / facts_.n_experts, expert = static_cast<int>(i) % facts_.n_experts;
    const bool stored = expert < experts_->n_experts();  // else it gives back its input and has no weights
    if (i < activations.size()) activations[i] = stored ? experts_->activations(layer, expert) : 0;
    if (i < places.size()) places[i] = stored ? experts_->place(layer, expert) : store::ExpertStore::Place::kResident;
  }
}

Result<std::shared_ptr<Sequence>> Engine::submit(Request request) {
  COLIBRI_TRY(check_parameters(request, spec().vocab_size));
  COLIBRI_TRY(
      check_prompt(request.prompt, request.max_tokens == 0 ? 0 : 1, spec().vocab_size, context(), spec().context));
  if (text() == nullptr && !request.stop.empty())
    return Error{ErrorCode::kUsage, "stop strings need the model's tokenizer, which is not open"};
  auto sequence = std::make_shared<Sequence>(std::move(request));
  const Request& r = sequence->request;
  const int64_t room = context() - sequence->n_prompt();
  const int64_t n = r.max_tokens < 0 ? room : std::min(r.max_tokens, room);
  sequence->limit = sequence->n_prompt() + n;
  reserve_touched(sequence->tokens, static_cast<size_t>(sequence->limit));
  reserve_touched(sequence->stats.inter_token_seconds, static_cast<size_t>(n));
  reserve_touched(sequence->stats.steps, static_cast<size_t>(n));
  sequence->sampler.emplace(r.sampling, sampled_vocab_);
  sequence->sampler->observe_prompt(r.prompt);
  if (!r.constraint.empty()) COLIBRI_TRY(constrain(*sequence));
  if (text() != nullptr) {
    sequence->detokenizer.emplace(*text()->tokenizer(), !r.keep_special, r.kept_special);
    if (r.echo) sequence->echo_detokenizer.emplace(*text()->tokenizer(), false);
    sequence->stop_matcher.emplace(r.stop);
  }
  metrics_.submitted.add(1);
  return enqueue(std::move(sequence));
}

Status Engine::evaluate(const TokenIds& ids, EvaluationSink& sink) {
  COLIBRI_TRY(check_prompt(ids, 0, spec().vocab_size, context(), spec().context));
  Request request;
  request.prompt = ids;
  auto sequence = std::make_shared<Sequence>(std::move(request));
  sequence->sink = &sink;
  sequence = enqueue(std::move(sequence));
  TokenEvent event;
  while (sequence->stream.pop(-1, event) && event.kind != EventKind::kEnd) {
  }
  if (std::string_view(event.finish_reason) == "stop") return {};
  return Error{event.code, event.error.empty() ? "the evaluation was stopped" : event.error};
}

Status Engine::constrain(Sequence& sequence) {
  if (text() == nullptr) return Error{ErrorCode::kUsage, "a constraint needs the model's tokenizer, which is not open"};
  std::call_once(token_texts_built_,
                 [this] { token_texts_ = sampling::TokenTexts::build(*text()->tokenizer(), description().eos_ids); });
  COLIBRI_ASSIGN(auto constraint, sampling::Constraint::parse(sequence.request.constraint, token_texts_));
  sequence.constraint.emplace(std::move(constraint), token_texts_);
  return {};
}

std::shared_ptr<Sequence> Engine::enqueue(std::shared_ptr<Sequence> sequence) {
  sequence->stats.activations.resize(static_cast<size_t>(facts_.n_moe_layers) * static_cast<size_t>(facts_.n_experts));
  sequence->long_prompt = spec().takes_long_factors(sequence->n_prompt());
  sequence->stream.on_pop([this] { wake(); });
  sequence->stream.on_arrival(sequence->request.notify);
  sequence->stats.submitted = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    incoming_.push_back(sequence);
  }
  wake_.notify_one();
  return sequence;
}

}  // namespace colibri::engine

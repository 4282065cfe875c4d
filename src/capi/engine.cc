#include "engine/engine.h"

#include <cstddef>
#include <cstring>

#include "capi/border.h"
#include "capi/handles.h"
#include "engine/plan_report.h"

using namespace colibri;

namespace {

// Copies as much of a caller's sized struct as the caller knows; the rest keeps its default.
template <typename T>
Result<T> sized_copy(const T* source, const char* name) {
  T copy{};
  if (source == nullptr) return copy;
  if (source->struct_size < sizeof(size_t)) return capi::missing_size(name);
  std::memcpy(&copy, source, std::min(source->struct_size, sizeof(T)));
  return copy;
}

Result<engine::OpenOptions> open_options(const colibri_options& options) {
  engine::OpenOptions result;
  if (options.settings == nullptr && options.n_settings > 0) return capi::missing_argument("settings");
  for (size_t i = 0; i < options.n_settings; ++i) {
    const colibri_setting& setting = options.settings[i];
    if (setting.key == nullptr || setting.value == nullptr) return capi::missing_argument("settings");
    COLIBRI_TRY(engine::apply_setting(setting.key, setting.value, result.settings));
  }
  result.wanted_context = options.wanted_context;
  result.without_text = options.without_text != 0;
  if (options.progress != nullptr)
    result.progress = [options](uint64_t done, uint64_t total) {
      return options.progress(options.progress_user, done, total) == 0;
    };
  if (options.log != nullptr)
    result.log = [options](int level, const std::string& line) { options.log(options.log_user, level, line.c_str()); };
  return result;
}

class CallbackSink final : public engine::EvaluationSink {
 public:
  explicit CallbackSink(const colibri_evaluate_callbacks& callbacks) : c_(callbacks) {}
  bool wants_logits() const override { return c_.logits != nullptr; }
  bool wants_stop() const override { return c_.stop != nullptr && c_.stop(c_.user) != 0; }
  bool on_logits(int64_t first, int64_t n, const float* logits, int vocab) override {
    return c_.logits(c_.user, static_cast<int32_t>(first), static_cast<int32_t>(n), logits, vocab) == 0;
  }
  bool on_routing(int layer, int64_t first, int64_t n, const int32_t* ids, const float* weights, int top_k) override {
    if (c_.routing == nullptr) return true;
    return c_.routing(c_.user, layer, static_cast<int32_t>(first), static_cast<int32_t>(n), ids, weights, top_k) == 0;
  }

 private:
  colibri_evaluate_callbacks c_;
};

Json engine_json(const engine::Engine& e) {
  const engine::EngineFacts& facts = e.facts();
  Json json;
  json.set("model", facts.model);
  json.set("load_seconds", facts.load_seconds);
  json.set("activations", e.total_activations());
  json.set("store", engine::store_json(e.store_statistics()));
  engine::add_facts(facts, json);
  return json;
}

}  // namespace

extern "C" {

void colibri_options_init(colibri_options* options) {
  if (options == nullptr) return;
  *options = {};
  options->struct_size = sizeof(colibri_options);
}

colibri_status colibri_open(const char* path, const colibri_options* options, colibri_engine** out,
                            colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (path == nullptr || out == nullptr) return capi::missing_argument(path == nullptr ? "path" : "out");
    COLIBRI_ASSIGN(const colibri_options copied, sized_copy(options, "options"));
    COLIBRI_ASSIGN(const engine::OpenOptions open, open_options(copied));
    auto handle = std::make_unique<colibri_engine>();
    COLIBRI_ASSIGN(handle->engine, engine::Engine::open(path, open));
    handle->text.model = handle->engine->text();
    *out = handle.release();
    return {};
  });
}

colibri_status colibri_plan(const char* path, const colibri_options* options, colibri_string* json,
                            colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (path == nullptr || json == nullptr) return capi::missing_argument(path == nullptr ? "path" : "json");
    COLIBRI_ASSIGN(const colibri_options copied, sized_copy(options, "options"));
    COLIBRI_ASSIGN(const engine::OpenOptions open, open_options(copied));
    COLIBRI_ASSIGN(const Json report, engine::report_plan(path, open));
    return capi::export_string(report.dump(), json);
  });
}

void colibri_close(colibri_engine* engine) { delete engine; }

colibri_status colibri_engine_info(const colibri_engine* engine, colibri_info* info, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (engine == nullptr || info == nullptr) return capi::missing_argument(engine == nullptr ? "engine" : "info");
    if (info->struct_size < sizeof(size_t)) return capi::missing_size("info");
    const engine::Engine& e = *engine->engine;
    const model::ModelSpec& spec = e.spec();
    const engine::EngineFacts& facts = e.facts();
    colibri_info full{};
    full.n_layers = spec.n_layers();
    full.n_moe_layers = spec.n_moe_layers();
    full.n_experts = spec.moe.router.n_experts;
    full.top_k = spec.moe.router.top_k;
    full.hidden_size = spec.hidden_size;
    full.vocab_size = spec.vocab_size;
    full.context = static_cast<int32_t>(e.context());
    full.model_context = static_cast<int32_t>(spec.context);
    full.threads = facts.threads;
    full.planned_bytes = static_cast<uint64_t>(facts.planned_bytes);
    full.budget_bytes = static_cast<uint64_t>(facts.budget_bytes);
    full.load_seconds = facts.load_seconds;
    full.family = spec.family.c_str();
    full.isa = facts.isa.c_str();
    full.io = facts.io.c_str();
    full.struct_size = std::min(info->struct_size, sizeof(full));
    std::memcpy(info, &full, full.struct_size);
    return {};
  });
}

colibri_status colibri_engine_metrics(const colibri_engine* engine, colibri_string* json, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (engine == nullptr || json == nullptr) return capi::missing_argument(engine == nullptr ? "engine" : "json");
    return capi::export_string(engine->engine->metrics_json().dump(), json);
  });
}

colibri_status colibri_engine_save_prefixes(colibri_engine* engine, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (engine == nullptr) return capi::missing_argument("engine");
    return engine->engine->save_prefixes();
  });
}

colibri_status colibri_engine_experts(const colibri_engine* engine, uint64_t* activations, uint8_t* residency, size_t n,
                                      colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (engine == nullptr) return capi::missing_argument("engine");
    const engine::EngineFacts& facts = engine->engine->facts();
    const auto expected = static_cast<size_t>(facts.n_moe_layers) * static_cast<size_t>(facts.n_experts);
    if (n != expected)
      return Error{ErrorCode::kUsage,
                   "n is " + std::to_string(n) + ", the model has " + std::to_string(expected) + " experts"};
    using Place = store::ExpertStore::Place;
    static_assert(static_cast<int>(Place::kAbsent) == COLIBRI_ON_DISK && sizeof(Place) == sizeof(uint8_t) &&
                  static_cast<int>(Place::kResident) == COLIBRI_IN_MEMORY &&
                  static_cast<int>(Place::kLoading) == COLIBRI_BEING_READ);
    engine->engine->experts({activations, activations != nullptr ? n : 0},
                            {reinterpret_cast<Place*>(residency), residency != nullptr ? n : 0});
    return {};
  });
}

colibri_status colibri_engine_moe_layers(const colibri_engine* engine, int32_t* layers, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (engine == nullptr || layers == nullptr) return capi::missing_argument(engine == nullptr ? "engine" : "layers");
    for (const model::LayerSpec& layer : engine->engine->spec().layers)
      if (layer.moe) *layers++ = layer.number;
    return {};
  });
}

const colibri_text* colibri_engine_text(const colibri_engine* engine) {
  return engine != nullptr && engine->text.model != nullptr ? &engine->text : nullptr;
}

colibri_status colibri_engine_stats(const colibri_engine* engine, colibri_string* json, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (engine == nullptr || json == nullptr) return capi::missing_argument(engine == nullptr ? "engine" : "json");
    return capi::export_string(engine_json(*engine->engine).dump(), json);
  });
}

colibri_status colibri_evaluate(colibri_engine* engine, const int32_t* ids, size_t n,
                                const colibri_evaluate_callbacks* callbacks, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (engine == nullptr || (ids == nullptr && n > 0))
      return capi::missing_argument(engine == nullptr ? "engine" : "ids");
    COLIBRI_ASSIGN(const colibri_evaluate_callbacks copied, sized_copy(callbacks, "callbacks"));
    CallbackSink sink(copied);
    return engine->engine->evaluate(TokenIds(ids, ids + n), sink);
  });
}

}  // extern "C"

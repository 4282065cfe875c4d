#include "session.h"

#include <algorithm>
#include <random>
#include <string_view>

#include "common/output.h"
#include "common/progress.h"
#include "common/signals.h"
#include "server/server_settings.h"

namespace colibri::cli {
namespace {

constexpr const char* kLevels[] = {"error", "warn", "info", "debug"};

// Lines of which levels are shown. Commands whose answer is on standard output stay quiet about what went well unless
// somebody asked for it.
int shown_level(const Settings& settings) {
  const Setting& setting = settings.at("log_level");
  if (setting.is_default()) return 1;
  const auto* found = std::find(std::begin(kLevels), std::end(kLevels), setting.value);
  return static_cast<int>(found - std::begin(kLevels));
}

template <typename T, typename U>
void set_if(T& target, const std::optional<U>& value) {
  if (value) target = *value;
}

}  // namespace

Status require_model(const std::string& model) {
  if (!model.empty()) return {};
  return usage_error("no model: name one as an argument, with --model, or in the variable COLIBRI_MODEL");
}

Outcome<Settings> load_settings(const EngineArgs& args) {
  if (Status named = require_model(args.model); !named) return named.error();
  return Settings::load({args.flags, args.config, args.model, server::setting_rows()});
}

Outcome<api::Engine> open_engine(const std::string& model, const Settings& settings, int64_t tokens, TextUse text) {
  const InterruptScope stoppable;
  Progress progress("loading", Progress::Unit::kBytes);
  api::Options options;
  options.settings = settings.chosen();
  options.wanted_context = tokens;
  options.without_text = text == TextUse::kNone;
  // The library reports while it opens and never later, so `progress` may end with this function.
  options.progress = [&progress](uint64_t done, uint64_t total) {
    progress.update(done, total);
    return interrupted() == 0;
  };
  options.log = [level = shown_level(settings)](int line_level, std::string_view line) {
    if (line_level <= level) print_error_line(line);
  };
  auto engine = api::Engine::open(model, std::move(options));
  if (engine && interrupted() != 0) return Error{COLIBRI_CANCELLED, "interrupted"};
  return engine;
}

void apply_sampling(const SamplingArgs& sampling, api::Request& request) {
  set_if(request.temperature, sampling.temperature);
  set_if(request.top_p, sampling.top_p);
  set_if(request.min_p, sampling.min_p);
  set_if(request.repetition_penalty, sampling.repetition_penalty);
  set_if(request.presence_penalty, sampling.presence_penalty);
  set_if(request.frequency_penalty, sampling.frequency_penalty);
  set_if(request.top_k, sampling.top_k);
  request.seed = sampling.seed.value_or(uint64_t{std::random_device{}()});
  request.stop = sampling.stop;
  request.ignore_eos = sampling.ignore_eos;
  request.logit_bias = sampling.logit_bias;
}

api::Request make_request(const api::Engine& engine, const SamplingArgs& sampling) {
  api::Request request = engine.request();
  apply_sampling(sampling, request);
  return request;
}

}  // namespace colibri::cli

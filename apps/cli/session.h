// Opening what a command works on: the model with its settings, progress, log lines and Ctrl-C.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "args.h"
#include "common/failure.h"
#include "common/settings.h"

namespace colibri::cli {

using namespace common;

/// A usage error when no model was named.
Status require_model(const std::string& model);

/// What tokenize is told: special tokens in a text count as such; with `add` what the model wants around a text is
/// added.
inline uint32_t tokenize_flags(bool add) {
  uint32_t flags = COLIBRI_PARSE_SPECIAL;
  if (add) flags |= COLIBRI_ADD_SPECIAL;
  return flags;
}

/// Flags, environment and files of a command that runs a model. Checks that a model was named.
Outcome<Settings> load_settings(const EngineArgs& args);

/// Whether the engine needs the model's tokenizer: a damaged one does not matter to commands that bring token ids.
enum class TextUse { kNone, kEngine };

/// Opens the model. `tokens`: what "context auto" means for this run; 0 when the command cannot know.
Outcome<api::Engine> open_engine(const std::string& model, const Settings& settings, int64_t tokens, TextUse text);

/// What the command line says about sampling, over what `request` says. Without --seed every request gets another one.
void apply_sampling(const SamplingArgs& sampling, api::Request& request);

/// The options of a request: the model's defaults, then the command line.
api::Request make_request(const api::Engine& engine, const SamplingArgs& sampling);

}  // namespace colibri::cli

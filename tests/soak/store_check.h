// What an expert store must have kept when the crowd has gone: every slot, and a true account.
#pragma once

#include <string>

#include "findings.h"
#include "prompts.h"

namespace colibri::soak {

/// Asks the engine, which nobody else uses any more, until all slots are taken, and checks its numbers.
void check_store(api::Engine& engine, const Prompts& prompts, Findings& findings);

/// Whether experts are read while the engine runs.
bool streams(const api::Engine& engine);

}  // namespace colibri::soak

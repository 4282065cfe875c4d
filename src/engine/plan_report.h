// plan: what a run would keep where, and how fast it could decode at best. Loads nothing.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "engine/engine.h"

namespace colibri::engine {

/// The plan that Engine::open would make with these options, what it reads per token, and the bounds that follow from
/// a short measurement (less than a second) of the disk and of the memory. docs/memory.md explains the fields. Errors
/// as from Engine::open: kDoesNotFit with the numbers when the budget is too small.
Result<Json> report_plan(const std::string& path, const OpenOptions& options);

}  // namespace colibri::engine

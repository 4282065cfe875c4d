// doctor: what this machine offers to Colibri, and what to change.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace colibri::engine {

/// {"system", "cpu", "instruction_sets", "memory", "limits", "disk", "advice": ["..."]}. `path`: a model, file
/// or folder whose disk is measured (the largest file is read for about two seconds); empty: "disk" is null.
Result<Json> examine_machine(const std::string& path);

}  // namespace colibri::engine

// Any JSON report as text for people: one line per value, nested ones indented, lists of like objects as tables.
#pragma once

#include <string>

#include "common/json.h"

namespace colibri::cli {

using namespace common;

std::string render_report(const json::value& report);

/// Columns padded to the same width; the first row is the heading.
std::string render_table(const std::vector<std::vector<std::string>>& rows, int indent);

}  // namespace colibri::cli

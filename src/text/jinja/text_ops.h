// Operations on strings that filters and string methods share. Lengths and positions are in code points.
//
// Thread-safety: one render, one thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace colibri::text::jinja {

/// Where `needle` first stands at or behind `from`, else npos. In linear time, whatever the two are.
size_t find_text(std::string_view text, std::string_view needle, size_t from = 0);
/// Where it last stands. Counts steps for the quadratic time that this can take.
Result<size_t> find_last_text(Runtime& rt, std::string_view text, std::string_view needle);

/// Python's str.splitlines.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

/// At most `count` replacements; negative: all. An empty `from` stands between all code points.
std::string_view replace_text(Heap& heap, std::string_view text, std::string_view from, std::string_view to,
                              int64_t count);

/// Filled up to `width` with `fill`: text to the left, to the right or, as str.center does it, in the middle.
enum class Justify : uint8_t { kLeft, kRight, kCenter };
std::string_view justify(Heap& heap, std::string_view text, int64_t width, std::string_view fill, Justify how);

}  // namespace colibri::text::jinja

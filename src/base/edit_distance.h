// How far apart two words are, for messages that name what somebody probably meant.
// Thread-safety: pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace colibri {

/// Insertions, deletions and replacements of bytes that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace colibri

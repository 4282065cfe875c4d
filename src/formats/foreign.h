// Files that lie where a model file should be: failed downloads, pointers, other formats. Said by name, because "bad
// header length" helps nobody who saved a web page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "platform/file.h"

namespace colibri::formats {

/// What a file is that begins with `head`, and what to do about it ("is a web page ..."); empty when unknown.
std::string describe_foreign(std::string_view head);

/// The first bytes of a file, at most 512.
Result<std::string> head_of(const platform::File& file);

}  // namespace colibri::formats

// What the fuzz targets share. A target is one *_fuzz.cc with LLVMFuzzerTestOneInput: under libFuzzer it explores, in
// the ordinary build replay_main.cc feeds it the files of its corpus folder (ctest fuzz_replay_NAME).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace colibri::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// The parts of a text before and after the first `separator`; the second is empty when there is none.
inline std::pair<std::string_view, std::string_view> cut(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

}  // namespace colibri::fuzz

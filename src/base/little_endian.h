// Whole numbers in the bytes of files: least significant byte first, whatever the machine does.
//
// For headers of our own small formats (heat file, prefix file). Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace colibri {

inline void append_number(std::string& bytes, uint64_t value, int n_bytes) {
  for (int i = 0; i < n_bytes; ++i) bytes.push_back(static_cast<char>(value >> 8 * i & 0xff));
}

/// REQUIRES: at + n_bytes <= bytes.size().
inline uint64_t number_at(std::string_view bytes, size_t at, int n_bytes) {
  uint64_t value = 0;
  for (int i = 0; i < n_bytes; ++i)
    value |= uint64_t{static_cast<uint8_t>(bytes[at + static_cast<size_t>(i)])} << 8 * i;
  return value;
}

}  // namespace colibri

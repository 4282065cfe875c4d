// Fnv1a: a 64-bit hash that is the same on every machine, for names of files and for checksums of small ones.
//
// FNV-1a as its authors define it. Any change of one byte changes the result; it is no defence against people who
// choose bytes on purpose. Numbers are hashed as eight bytes, least significant first; texts with their length in
// front, so that no two sequences of calls with different arguments hash the same bytes. Thread-safety: a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace colibri {

class Fnv1a {
 public:
  void add_bytes(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) hash_ = (hash_ ^ static_cast<uint64_t>(byte)) * kPrime;
  }
  void add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) hash_ = (hash_ ^ (number >> shift & 0xff)) * kPrime;
  }
  void add(std::string_view text) {
    add(uint64_t{text.size()});
    add_bytes(std::as_bytes(std::span(text.data(), text.size())));
  }
  uint64_t value() const { return hash_; }

 private:
  static constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace colibri

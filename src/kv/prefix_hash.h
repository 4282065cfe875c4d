// Names of prefixes: 128 bits over everything that decides what keys and values are, and checksums of their files.
//
// A block's name continues that of the block before it, so equal names mean equal tokens from the beginning on. They
// find blocks; whoever uses one compares the tokens as well, so that two with the same name cannot be mixed up.
// xxHash (XXH3) as its author defines it. Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/token_ids.h"

namespace colibri::kv {

struct PrefixHash {
  uint64_t low = 0, high = 0;
  bool operator==(const PrefixHash&) const = default;
};

/// Among whom prefixes are shared, and what else but the tokens decides about keys.
struct PrefixScope {
  static constexpr size_t kMaxKeyBytes = 128;  ///< prefixes of longer keys are not kept

  std::string_view key;      ///< only the same key finds a prefix again; it is also written to files: no secret
  bool long_prompt = false;  ///< RoPE with the long factors (BatchSegment::long_prompt)
};

/// What the first block of a scope continues. `identity`: of the model; `geometry`: of what a block holds.
PrefixHash prefix_root(uint64_t identity, uint64_t geometry, const PrefixScope& scope);
/// The name of a block with these tokens.
PrefixHash prefix_hash(const PrefixHash& before, std::span<const TokenId> tokens);
/// XXH3, 64 bits, of the bytes, with a seed.
uint64_t xxh3(std::span<const std::byte> bytes, uint64_t seed = 0);

/// 32 hexadecimal digits.
std::string hex(const PrefixHash& hash);

}  // namespace colibri::kv

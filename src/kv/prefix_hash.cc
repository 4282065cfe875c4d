#include "kv/prefix_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

#include "base/little_endian.h"

namespace colibri::kv {
namespace {

PrefixHash named(XXH128_hash_t hash) { return {hash.low64, hash.high64}; }

}  // namespace

PrefixHash prefix_root(uint64_t identity, uint64_t geometry, const PrefixScope& scope) {
  std::string bytes;
  append_number(bytes, identity, 8);
  append_number(bytes, geometry, 8);
  append_number(bytes, scope.long_prompt, 1);
  bytes += scope.key;
  return named(XXH3_128bits(bytes.data(), bytes.size()));
}

// The chain goes through the seed, and through both halves of the sum: XXH3 takes no more than 64 bits of seed.
PrefixHash prefix_hash(const PrefixHash& before, std::span<const TokenId> tokens) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(tokens.data(), tokens.size_bytes(), before.low);
  const uint64_t both[] = {before.low, before.high, hash.low64, hash.high64};
  return named(XXH3_128bits(both, sizeof both));
}

uint64_t xxh3(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string hex(const PrefixHash& hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return text;
}

}  // namespace colibri::kv

// The head of a prefix file, which is looked at in every file of a folder before anything else of it is believed.
// Input: the head. So that damage gets past its checksum, a head with the right first bytes is tried with a right one
// too.
#include <string>

#include "base/little_endian.h"
#include "fuzz.h"
#include "kv/prefix_file.h"

namespace {

using colibri::kv::PrefixFileHead;

void check(std::string_view bytes) {
  const auto head = colibri::kv::parse_prefix_head(bytes);
  if (!head.ok()) {
    COLIBRI_CHECK(!head.error().message.empty());
    return;
  }
  const auto n_tokens = static_cast<int64_t>(head->n_tokens);
  COLIBRI_CHECK(n_tokens > 0 && n_tokens <= PrefixFileHead::kMaxPositions && n_tokens % head->block_positions == 0);
  COLIBRI_CHECK(head->key_bytes <= colibri::kv::PrefixScope::kMaxKeyBytes);
  const int64_t rest = head->file_bytes() - static_cast<int64_t>(PrefixFileHead::kBytes) - 4 * n_tokens;
  COLIBRI_CHECK(rest >= 0 && static_cast<uint64_t>(rest) == head->key_bytes + head->block_bytes + head->state_bytes);
  COLIBRI_CHECK(colibri::kv::prefix_head_bytes(*head) == bytes.substr(0, PrefixFileHead::kBytes));
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = colibri::fuzz::text_of(data, size);
  check(bytes);
  constexpr size_t kSummed = PrefixFileHead::kBytes - 8;
  if (bytes.size() < kSummed) return 0;
  std::string forged(bytes.substr(0, kSummed));
  colibri::append_number(forged, colibri::kv::xxh3(std::as_bytes(std::span(forged))), 8);
  check(forged);
  return 0;
}

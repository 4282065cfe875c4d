#include "kv/prefix_file.h"

#include <algorithm>
#include <initializer_list>

#include "base/check.h"
#include "base/little_endian.h"
#include "platform/file.h"

namespace colibri::kv {
namespace {

// The layout of docs/prefix-cache.md.
constexpr std::string_view kMagic = "COLIPFIX";
constexpr uint32_t kVersion = 1;
constexpr size_t kVersionAt = 8, kFlagsAt = 12, kIdentityAt = 16, kGeometryAt = 24, kHashAt = 32, kPositionsAt = 48,
                 kTokensAt = 52, kTypeAt = 56, kKeyAt = 60, kBlockAt = 64, kStateAt = 72, kBlockChecksumAt = 80,
                 kStateChecksumAt = 88, kHeadChecksumAt = 96;
constexpr uint32_t kLongPrompt = 1;

Error unusable(const std::string& path, const std::string& what) {
  return {ErrorCode::kInvalidModel, path + ": " + what};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Each part is hashed with the sum of the parts before it as the seed.
uint64_t block_checksum(const PrefixFileBody& body) {
  uint64_t sum = 0;
  for (const auto part : {bytes_of(body.key), std::as_bytes(body.tokens), body.block}) sum = xxh3(part, sum);
  return sum;
}

bool sensible(const PrefixFileHead& head, uint64_t flags) {
  return (flags & ~uint64_t{kLongPrompt}) == 0 && head.block_positions > 0 && head.n_tokens > 0 &&
         head.n_tokens % head.block_positions == 0 && head.n_tokens <= PrefixFileHead::kMaxPositions &&
         head.key_bytes <= PrefixScope::kMaxKeyBytes && head.block_bytes <= PrefixFileHead::kMaxPartBytes &&
         head.state_bytes <= PrefixFileHead::kMaxPartBytes;
}

// A head whose checksum holds, field by field.
PrefixFileHead fields_of(std::string_view bytes) {
  const auto u32 = [&](size_t at) { return static_cast<uint32_t>(number_at(bytes, at, 4)); };
  const auto u64 = [&](size_t at) { return number_at(bytes, at, 8); };
  PrefixFileHead head;
  head.long_prompt = (u32(kFlagsAt) & kLongPrompt) != 0;
  head.identity = u64(kIdentityAt);
  head.geometry = u64(kGeometryAt);
  head.hash = {u64(kHashAt), u64(kHashAt + 8)};
  head.block_positions = u32(kPositionsAt);
  head.n_tokens = u32(kTokensAt);
  head.kv_type = u32(kTypeAt);
  head.key_bytes = u32(kKeyAt);
  head.block_bytes = u64(kBlockAt);
  head.state_bytes = u64(kStateAt);
  head.block_checksum = u64(kBlockChecksumAt);
  head.state_checksum = u64(kStateChecksumAt);
  return head;
}

// A head without what may differ between files that serve the same purpose.
PrefixFileHead purpose(PrefixFileHead head) {
  head.state_bytes = head.block_checksum = head.state_checksum = 0;
  return head;
}

Result<PrefixFileHead> head_of(const platform::File& file) {
  std::string bytes(PrefixFileHead::kBytes, '\0');
  if (file.size_bytes() < static_cast<int64_t>(bytes.size()))
    return Error{ErrorCode::kUnsupported, file.path() + ": is no prefix file"};
  COLIBRI_TRY(file.read_at(0, std::as_writable_bytes(std::span(bytes))));
  COLIBRI_ASSIGN(const PrefixFileHead head, parse_prefix_head(bytes).with_context(file.path()));
  if (head.file_bytes() == file.size_bytes()) return head;
  return unusable(file.path(), "is damaged: it has " + std::to_string(file.size_bytes()) + " bytes, " +
                                   std::to_string(head.file_bytes()) + " are expected");
}

// Reads the key, the tokens and the block, one after the other; the sum of what was read.
Result<uint64_t> read_parts(const platform::File& file, std::initializer_list<std::span<std::byte>> parts) {
  int64_t at = PrefixFileHead::kBytes;
  uint64_t sum = 0;
  for (const std::span<std::byte> part : parts) {
    COLIBRI_TRY(file.read_at(at, part));
    at += static_cast<int64_t>(part.size());
    sum = xxh3(part, sum);
  }
  return sum;
}

}  // namespace

int64_t PrefixFileHead::file_bytes() const {
  return static_cast<int64_t>(kBytes + key_bytes + uint64_t{n_tokens} * sizeof(TokenId) + block_bytes + state_bytes);
}

std::string prefix_head_bytes(const PrefixFileHead& head) {
  std::string bytes(kMagic);
  append_number(bytes, kVersion, 4);
  append_number(bytes, head.long_prompt ? kLongPrompt : 0, 4);
  for (const uint64_t number : {head.identity, head.geometry, head.hash.low, head.hash.high})
    append_number(bytes, number, 8);
  for (const uint32_t number : {head.block_positions, head.n_tokens, head.kv_type, head.key_bytes})
    append_number(bytes, number, 4);
  for (const uint64_t number : {head.block_bytes, head.state_bytes, head.block_checksum, head.state_checksum})
    append_number(bytes, number, 8);
  append_number(bytes, xxh3(bytes_of(bytes)), 8);
  return bytes;
}

Result<PrefixFileHead> parse_prefix_head(std::string_view bytes) {
  const auto wrong = [](std::string what) { return Error{ErrorCode::kInvalidModel, std::move(what)}; };
  if (bytes.size() < PrefixFileHead::kBytes || !bytes.starts_with(kMagic))
    return Error{ErrorCode::kUnsupported, "is no prefix file"};
  const bool whole = number_at(bytes, kHeadChecksumAt, 8) == xxh3(bytes_of(bytes.substr(0, kHeadChecksumAt)));
  if (!whole) return wrong("is damaged: the checksum of its head does not fit");
  if (const uint64_t version = number_at(bytes, kVersionAt, 4); version != kVersion) {
    return wrong("has version " + std::to_string(version) + ", this program reads version " + std::to_string(kVersion));
  }
  PrefixFileHead head = fields_of(bytes);
  if (!sensible(head, number_at(bytes, kFlagsAt, 4))) return wrong("is damaged: its head names sizes that cannot be");
  return head;
}

Status write_prefix_file(const std::string& path, PrefixFileHead head, const PrefixFileBody& body) {
  head.key_bytes = static_cast<uint32_t>(body.key.size());
  head.n_tokens = static_cast<uint32_t>(body.tokens.size());
  head.block_bytes = body.block.size();
  head.state_bytes = body.state.size();
  head.block_checksum = block_checksum(body);
  head.state_checksum = xxh3(body.state);
  COLIBRI_CHECK(sensible(head, 0));
  COLIBRI_ASSIGN(platform::FileWriter writer, platform::FileWriter::create(path));
  COLIBRI_TRY(writer.append(prefix_head_bytes(head)));
  COLIBRI_TRY(writer.append(body.key));
  for (const auto part : {std::as_bytes(body.tokens), body.block, body.state}) COLIBRI_TRY(writer.append(part));
  return writer.commit();
}

Result<PrefixFileHead> read_prefix_head(const std::string& path) {
  COLIBRI_ASSIGN(const platform::File file, platform::File::open(path));
  return head_of(file);
}

Status read_prefix_file(const std::string& path, const PrefixFileHead& expected, std::string_view key,
                        std::span<const TokenId> tokens, const PrefixFileTarget& target) {
  COLIBRI_CHECK(target.scratch.size() >= tokens.size() && key.size() <= PrefixScope::kMaxKeyBytes);
  COLIBRI_ASSIGN(const platform::File file, platform::File::open(path));
  COLIBRI_ASSIGN(const PrefixFileHead head, head_of(file));
  if (purpose(head) != purpose(expected)) return unusable(path, "belongs to another model, layout or prefix");
  if (!target.state.empty() && head.state_bytes != target.state.size()) return unusable(path, "has no state");

  char found_key[PrefixScope::kMaxKeyBytes];
  const std::span key_bytes(found_key, key.size());
  const std::span<TokenId> found = target.scratch.first(tokens.size());
  COLIBRI_ASSIGN(const uint64_t block_sum,
                 read_parts(file, {std::as_writable_bytes(key_bytes), std::as_writable_bytes(found), target.block}));
  if (block_sum != head.block_checksum) return unusable(path, "is damaged: its checksum does not fit its bytes");
  if (std::string_view(found_key, key.size()) != key || !std::ranges::equal(found, tokens))
    return unusable(path, "belongs to another prefix of the same name");
  if (!target.state.empty()) {
    COLIBRI_TRY(file.read_at(file.size_bytes() - static_cast<int64_t>(head.state_bytes), target.state));
    if (xxh3(target.state) != head.state_checksum)
      return unusable(path, "is damaged: the checksum does not fit its state");
  }
  file.expect_no_more_reads(0, 0);  // memory has it now
  return {};
}

}  // namespace colibri::kv

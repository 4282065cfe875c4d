// A prefix file: one block of a prefix on the disk, and the recurrent state behind it where the model has any.
//
// A file stands alone: it says which model, layout and scope it is for and lists all tokens from the beginning to its
// end, so that nothing has to be believed because of a name. docs/prefix-cache.md specifies every byte. It is written
// to a temporary name, synced and renamed, so a file of its name is whole; a reader checks all the same.
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kv/prefix_hash.h"

namespace colibri::kv {

/// The first bytes of a file: what it is, and the sizes of what follows.
struct PrefixFileHead {
  static constexpr size_t kBytes = 104;
  static constexpr int64_t kMaxPositions = int64_t{1} << 26;  // of a prefix
  static constexpr int64_t kMaxPartBytes = int64_t{1} << 40;  // of a block, of a state

  bool long_prompt = false;
  uint64_t identity = 0;  ///< of the model and of all that changes its keys
  uint64_t geometry = 0;  ///< of the block and of the state
  PrefixHash hash;
  uint32_t block_positions = 0;
  uint32_t n_tokens = 0;  ///< of the prefix: a multiple of block_positions, at least one
  uint32_t kv_type = 0;
  uint32_t key_bytes = 0;
  uint64_t block_bytes = 0;
  uint64_t state_bytes = 0;     ///< 0: without state
  uint64_t block_checksum = 0;  ///< of key, tokens and block
  uint64_t state_checksum = 0;

  bool operator==(const PrefixFileHead&) const = default;
  int64_t file_bytes() const;
};

/// What follows the head, in this order.
struct PrefixFileBody {
  std::string_view key;
  std::span<const TokenId> tokens;
  std::span<const std::byte> block;
  std::span<const std::byte> state;
};

/// kBytes bytes.
std::string prefix_head_bytes(const PrefixFileHead& head);
/// The head that `bytes` begin with, whatever they are. kUnsupported: another kind of file; kInvalidModel: another
/// version, or damage. Every size is within its bounds, so that file_bytes() is a number.
Result<PrefixFileHead> parse_prefix_head(std::string_view bytes);

/// The file is there as a whole or as it was. `head`: all but the sizes and checksum that follow from `body`.
Status write_prefix_file(const std::string& path, PrefixFileHead head, const PrefixFileBody& body);
/// The head of a file whose size fits it. kUnsupported when it is none of ours, kInvalidModel when it is not there or
/// cannot be used, kIo when reading fails.
Result<PrefixFileHead> read_prefix_head(const std::string& path);

/// Where a body goes. `state` may be empty: then it is not read, if the file has it.
struct PrefixFileTarget {
  std::span<TokenId> scratch;  ///< for the tokens of the file
  std::span<std::byte> block;
  std::span<std::byte> state;
};
/// Reads the file of exactly this key and these tokens. Errors like read_prefix_head(): then what was read is
/// worthless. `expected`: what the head must say, besides state and checksum.
Status read_prefix_file(const std::string& path, const PrefixFileHead& expected, std::string_view key,
                        std::span<const TokenId> tokens, const PrefixFileTarget& target);

}  // namespace colibri::kv

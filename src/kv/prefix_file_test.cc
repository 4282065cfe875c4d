#include "kv/prefix_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/little_endian.h"
#include "kv/prefix_test_folder.h"

namespace colibri::kv {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

class PrefixFile : public PrefixFolderTest {
 protected:
  PrefixFile() {
    head.identity = 0x0123456789abcdef;
    head.geometry = 5;
    head.hash = {1, 2};
    head.block_positions = 2;
    head.kv_type = 1;
    // What a reader knows of the file that it wants.
    head.key_bytes = 1;
    head.n_tokens = 4;
    head.block_bytes = 8;
  }
  Status write_file(const std::string& state = "stat") {
    return write_prefix_file(path("file"), head, {key, tokens, bytes_of(block), bytes_of(state)});
  }
  // Why the file cannot be used, or that it was read.
  std::string said(size_t n_state = 4) {
    std::string state(n_state, '?');
    read_block.assign(8, '?');
    TokenIds scratch(tokens.size());
    const PrefixFileTarget target{scratch, bytes_of(read_block), bytes_of(state)};
    const Status status = read_prefix_file(path("file"), head, key, tokens, target);
    if (!status.ok()) return status.error().message.substr(path("file: ").size());
    EXPECT_EQ(read_block, block);
    EXPECT_EQ(state, std::string("stat").substr(0, n_state));
    return "read";
  }

  PrefixFileHead head;
  std::string key = "k", block = "12345678", read_block;
  TokenIds tokens{10, 20, 30, 40};
};

TEST_F(PrefixFile, ComesBackAsItWasWritten) {
  ASSERT_TRUE(write_file().ok());
  EXPECT_EQ(said(), "read");
  EXPECT_EQ(said(0), "read") << "whoever needs no state";
  ASSERT_TRUE(write_file("").ok());
  EXPECT_EQ(said(0), "read");
  EXPECT_EQ(said(), "has no state");
}

// docs/prefix-cache.md, byte by byte: files of today are there tomorrow.
TEST_F(PrefixFile, TheBytesAreThoseOfTheSpecification) {
  ASSERT_TRUE(write_file().ok());
  const std::string all = bytes("file");
  const std::string begins(
      "COLIPFIX\1\0\0\0\0\0\0\0\xef\xcd\xab\x89\x67\x45\x23\x01\5\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
      "\2\0\0\0\4\0\0\0\1\0\0\0\1\0\0\0\x08\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0",
      80);
  EXPECT_EQ(all.substr(0, 80), begins);
  const std::string body(
      "k\x0a\0\0\0\x14\0\0\0\x1e\0\0\0\x28\0\0\0"
      "12345678stat",
      29);
  EXPECT_EQ(all.substr(104), body);
  // XXH3: "k"; the tokens, with that as the seed; the block, with that. The state. The 96 bytes before.
  std::string sums;
  for (const uint64_t sum : {0xe5610c488e20c3d2u, 0x3feceb12d144f525u, 0x6d964944d33ce1c6u})
    append_number(sums, sum, 8);
  EXPECT_EQ(all.substr(80, 24), sums);
}

TEST_F(PrefixFile, EveryFlippedBitIsNoticed) {
  ASSERT_TRUE(write_file().ok());
  const std::string whole = bytes("file");
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    write("file", damaged);
    EXPECT_NE(said(), "read") << bit;
  }
}

TEST_F(PrefixFile, EveryCutAndEveryTailIsNoticed) {
  ASSERT_TRUE(write_file().ok());
  const std::string whole = bytes("file");
  for (size_t size = 0; size < whole.size(); ++size) {
    write("file", whole.substr(0, size));
    EXPECT_NE(said(), "read") << size;
  }
  write("file", whole + '\0');
  EXPECT_EQ(said(), "is damaged: it has 134 bytes, 133 are expected");
}

TEST_F(PrefixFile, OthersAreNotTakenForOurs) {
  ASSERT_TRUE(write_file().ok());
  const auto differs = [&](auto change) {
    const PrefixFileHead before = head;
    change();
    EXPECT_EQ(said(), "belongs to another model, layout or prefix");
    head = before;
  };
  differs([&] { head.identity = 6; });
  differs([&] { head.geometry = 6; });
  differs([&] { head.hash.high = 6; });
  differs([&] { head.long_prompt = true; });
  differs([&] { head.kv_type = 2; });
  differs([&] { head.block_positions = 4; });
  tokens[1] = 21;
  EXPECT_EQ(said(), "belongs to another prefix of the same name");
  tokens[1] = 20;
  key = "l";
  EXPECT_EQ(said(), "belongs to another prefix of the same name");
}

// A checksum proves nothing about who wrote the file.
TEST_F(PrefixFile, ForgedHeadsNameNoSizesThatCannotBe) {
  const std::string good = prefix_head_bytes(head);
  ASSERT_TRUE(parse_prefix_head(good).ok());
  EXPECT_EQ(*parse_prefix_head(good), head);
  const auto refused = [](PrefixFileHead forged, const char* why) {
    const auto parsed = parse_prefix_head(prefix_head_bytes(forged));
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().message, why);
  };
  const char* sizes = "is damaged: its head names sizes that cannot be";
  const auto forged = [&](auto PrefixFileHead::*field, auto value) {
    PrefixFileHead copy = head;
    copy.*field = static_cast<std::decay_t<decltype(copy.*field)>>(value);
    return copy;
  };
  refused(forged(&PrefixFileHead::block_positions, 0), sizes);
  refused(forged(&PrefixFileHead::n_tokens, 0), sizes);
  refused(forged(&PrefixFileHead::n_tokens, 3), sizes);
  refused(forged(&PrefixFileHead::n_tokens, 0xfffffffeu), sizes);
  refused(forged(&PrefixFileHead::key_bytes, 129), sizes);
  refused(forged(&PrefixFileHead::block_bytes, ~uint64_t{0}), sizes);
  refused(forged(&PrefixFileHead::state_bytes, uint64_t{1} << 63), sizes);
  EXPECT_EQ(parse_prefix_head("").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(parse_prefix_head(std::string(200, 'x')).error().message, "is no prefix file");
}

TEST_F(PrefixFile, AnotherVersionIsNamed) {
  std::string later = prefix_head_bytes(head).substr(0, 96);
  later[8] = 2;
  const uint64_t sum = xxh3(bytes_of(later));
  later.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  EXPECT_EQ(parse_prefix_head(later).error().message, "has version 2, this program reads version 1");
}

TEST_F(PrefixFile, WhatIsNoFileIsAnError) {
  EXPECT_EQ(read_prefix_head(path("none")).error().code, ErrorCode::kInvalidModel);
  std::filesystem::create_directory(path("file"));
  EXPECT_EQ(said(), "is a folder, a file is needed");
}

}  // namespace
}  // namespace colibri::kv

#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace colibri {
namespace {

uint64_t of_bytes(std::string_view text) {
  Fnv1a hash;
  hash.add_bytes(std::as_bytes(std::span(text.data(), text.size())));
  return hash.value();
}

// The authors' test vectors: what is on disk must stay readable.
TEST(Fnv1a, IsThePublishedFunction) {
  EXPECT_EQ(of_bytes(""), 0xcbf29ce484222325u);
  EXPECT_EQ(of_bytes("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(of_bytes("foobar"), 0x85944171f73967e8u);
}

TEST(Fnv1a, NumbersAreEightBytesLeastSignificantFirst) {
  Fnv1a hash;
  hash.add(uint64_t{0x6261});
  EXPECT_EQ(hash.value(), of_bytes(std::string_view("ab\0\0\0\0\0\0", 8)));
}

TEST(Fnv1a, TextsDoNotRunIntoEachOther) {
  Fnv1a first, second;
  first.add("ab");
  first.add("c");
  second.add("a");
  second.add("bc");
  EXPECT_NE(first.value(), second.value());
}

}  // namespace
}  // namespace colibri

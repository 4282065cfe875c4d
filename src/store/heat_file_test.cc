#include "store/heat_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <thread>

#include "base/hash.h"
#include "formats/test_files.h"

namespace colibri::store {
namespace {

constexpr uint64_t kIdentity = 0x0123456789abcdef;

class HeatFile : public formats::FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    file = path("cache/colibri/heat");
  }
  std::string bytes() const { return *platform::read_text_file(file, 1 << 20); }
  void replace(const std::string& content) const { write("cache/colibri/heat", content); }
  // The message of reading the file, or what was read.
  std::string said(uint64_t identity = kIdentity, int n_layers = 2, int n_experts = 3) const {
    const auto heat = read_heat(file, identity, n_layers, n_experts);
    if (!heat.ok()) return heat.error().message;
    return *heat ? "read" : "no file";
  }

  std::string file;
};

const Heat kHeat{2, 3, {0, 1.5f, 2, 1e30f, 1e-40f, 7}};

// Makes the last eight bytes fit again, as whoever forges a file can.
std::string with_checksum(std::string bytes) {
  bytes.resize(bytes.size() - 8);
  Fnv1a hash;
  hash.add_bytes(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return bytes + formats::raw(hash.value());
}

std::string with(std::string bytes, size_t at, std::string_view part) { return bytes.replace(at, part.size(), part); }

TEST_F(HeatFile, ComesBackAsItWasWritten) {
  EXPECT_EQ(said(), "no file");
  ASSERT_TRUE(write_heat(file, kIdentity, kHeat).ok());
  const auto heat = read_heat(file, kIdentity, 2, 3);
  ASSERT_TRUE(heat.ok() && heat->has_value()) << said();
  EXPECT_EQ((*heat)->n_layers, 2);
  EXPECT_EQ((*heat)->n_experts, 3);
  EXPECT_EQ((*heat)->values, kHeat.values);
  ASSERT_TRUE(write_heat(file, kIdentity, Heat{2, 3, std::vector<float>(6, 4)}).ok());
  EXPECT_EQ((*read_heat(file, kIdentity, 2, 3))->values, std::vector<float>(6, 4));
}

// docs/heat_file.md, byte by byte: files of today are there tomorrow.
TEST_F(HeatFile, TheBytesAreThoseOfTheSpecification) {
  ASSERT_TRUE(write_heat(file, kIdentity, Heat{1, 2, {1.5f, 0}}).ok());
  const std::string before_checksum(
      "COLIHEAT\1\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0\xef\xcd\xab\x89\x67\x45\x23\x01\0\0\xc0\x3f\0\0\0\0", 40);
  EXPECT_EQ(bytes(), before_checksum + formats::raw(uint64_t{0x231d45a649afb725}));
}

TEST_F(HeatFile, EveryFlippedBitIsNoticed) {
  ASSERT_TRUE(write_heat(file, kIdentity, kHeat).ok());
  formats::for_each_bit_flip(bytes(), [&](const std::string& damaged) {
    replace(damaged);
    EXPECT_TRUE(said().starts_with(file + ": is ")) << said();
  });
}

TEST_F(HeatFile, EveryCutAndEveryTailIsNoticed) {
  ASSERT_TRUE(write_heat(file, kIdentity, kHeat).ok());
  const std::string whole = bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    replace(whole.substr(0, size));
    EXPECT_TRUE(said().starts_with(file + ": is ")) << size << said();
  }
  replace(whole + '\0');
  EXPECT_SAYS(said(), "is damaged: it has 65 bytes, 64 are expected; it will be replaced");
}

TEST_F(HeatFile, OtherVersionsModelsAndShapesAreNamed) {
  ASSERT_TRUE(write_heat(file, kIdentity, kHeat).ok());
  EXPECT_SAYS(said(7),
              "belongs to another model (0123456789abcdef, this one is 0000000000000007); it will be replaced");
  EXPECT_SAYS(said(kIdentity, 3, 2), "has 2 layers of 3 experts, the model has 3 of 2; it will be replaced");
  EXPECT_SAYS(said(kIdentity, 2, 4), "has 2 layers of 3 experts, the model has 2 of 4");
  replace(with_checksum(with(bytes(), 8, "\2")));
  EXPECT_SAYS(said(), "has version 2, this program reads version 1");
}

// A checksum proves nothing about who wrote the file.
TEST_F(HeatFile, ValuesThatCountNothingAreRefused) {
  ASSERT_TRUE(write_heat(file, kIdentity, kHeat).ok());
  const std::string whole = bytes();
  using Limits = std::numeric_limits<float>;
  for (const float bad : {-1.0f, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    replace(with_checksum(with(whole, 32 + 4 * 4, formats::raw(bad))));
    EXPECT_SAYS(said(), "is damaged: layer 1, expert 1 has ");
  }
  replace(with_checksum(with(whole, 20, "\1")));
  EXPECT_SAYS(said(), "reserved bytes are not zero");
}

TEST_F(HeatFile, ADamagedFileIsReplaced) {
  ASSERT_TRUE(write_heat(file, kIdentity, kHeat).ok());
  replace(bytes().substr(0, 20));
  ASSERT_TRUE(write_heat(file, kIdentity, kHeat).ok());
  EXPECT_EQ(said(), "read");
  replace("");
  ASSERT_TRUE(write_heat(file, kIdentity, kHeat).ok());
  EXPECT_EQ(said(), "read");
}

// heat_file=~/thesis.txt must not cost the thesis.
TEST_F(HeatFile, WhatIsNoHeatFileIsLeftAlone) {
  ASSERT_TRUE(platform::create_folders(platform::parent(file)).ok());
  for (const std::string text : {"The first chapter of a long thesis, which is not a heat file.", "short"}) {
    replace(text);
    EXPECT_SAYS(said(), "is not a heat file");
    const Status refused = write_heat(file, kIdentity, kHeat);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
    EXPECT_EQ(bytes(), text);
    ASSERT_TRUE(write_heat(file, kIdentity, kHeat, Foreign::kReplace).ok());  // in our own folder
    EXPECT_EQ(said(), "read");
  }
  EXPECT_FALSE(write_heat(platform::parent(file), kIdentity, kHeat).ok());
}

// Two programs that end at the same time: a reader sees one file or the other, whole.
TEST_F(HeatFile, WritersAtTheSameTimeLeaveOneWholeFile) {
  ASSERT_TRUE(write_heat(file, kIdentity, Heat{8, 64, std::vector<float>(512, 1)}).ok());
  const auto writer = [&](float value) {
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(write_heat(file, kIdentity, Heat{8, 64, std::vector<float>(512, value)}).ok());
  };
  std::thread first(writer, 1.0f), second(writer, 2.0f);
  for (int i = 0; i < 50; ++i) {
    const auto heat = read_heat(file, kIdentity, 8, 64);
    ASSERT_TRUE(heat.ok() && heat->has_value()) << heat.error().message;
    EXPECT_EQ((*heat)->values, std::vector<float>(512, (*heat)->values[0]));
  }
  first.join();
  second.join();
  EXPECT_EQ(platform::list_directory(platform::parent(file))->size(), 1u) << "no temporary file stays";
}

TEST(HeatFilePath, FollowsTheEnvironment) {
  ASSERT_EQ(::setenv("XDG_CACHE_HOME", "/some/cache", 1), 0);
  ASSERT_EQ(::setenv("HOME", "/home/user", 1), 0);
  EXPECT_EQ(default_heat_path(0xab), "/some/cache/colibri/heat-00000000000000ab");
  ASSERT_EQ(::setenv("XDG_CACHE_HOME", "relative", 1), 0);
  EXPECT_EQ(default_heat_path(0xab), "/home/user/.cache/colibri/heat-00000000000000ab");
  ASSERT_EQ(::unsetenv("XDG_CACHE_HOME"), 0);
  ASSERT_EQ(::unsetenv("HOME"), 0);
  EXPECT_EQ(default_heat_path(0xab), "");
}

class ModelIdentity : public formats::FolderTest {
 protected:
  uint64_t of(std::string_view name, std::string_view header, size_t data_bytes) const {
    write(name, formats::safetensors_file(header, data_bytes));
    const auto catalog = formats::open_catalog(path(name));
    EXPECT_TRUE(catalog.ok()) << catalog.error().message;
    return catalog.ok() ? model_identity(*catalog) : 0;
  }
};

TEST_F(ModelIdentity, IsThatOfTheContentNotOfThePath) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  const uint64_t identity = of("one.safetensors", header, 24);
  EXPECT_EQ(of("two.safetensors", header, 24), identity);
  for (const char* other : {R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
                            R"({"a":{"dtype":"I32","shape":[2,3],"data_offsets":[0,24]}})",
                            R"({"a":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}})"}) {
    EXPECT_NE(of("other.safetensors", other, 24), identity) << other;
  }
}

TEST_F(ModelIdentity, ChangesWithThePlacesOfTheTensors) {
  const std::string ab = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                         R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})";
  const std::string ba = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},)"
                         R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_NE(of("ab.safetensors", ab, 16), of("ba.safetensors", ba, 16));
}

}  // namespace
}  // namespace colibri::store

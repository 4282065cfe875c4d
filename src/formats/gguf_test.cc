#include "formats/gguf.h"

#include "formats/shard_name.h"
#include "formats/test_files.h"

namespace colibri::formats {
namespace {

constexpr uint32_t kF32 = 0, kQ8 = 8;

Result<GgufHeader> parse(const std::string& file) {
  bool needs_more = false;
  auto header = parse_gguf_header(std::as_bytes(std::span(file.data(), file.size())), static_cast<int64_t>(file.size()),
                                  0, &needs_more);
  EXPECT_FALSE(needs_more);  // the whole file was given
  return header;
}

std::string error_of(const std::string& file) {
  const auto header = parse(file);
  if (header.ok()) return "accepted";
  EXPECT_EQ(header.error().code, ErrorCode::kInvalidModel);
  return header.error().message;
}

std::string array(uint32_t type, uint64_t count, const std::string& items) { return raw(type) + raw(count) + items; }

TEST(GgufHeader, ReadsEveryValueType) {
  Gguf gguf;
  gguf.key("u8", Gguf::kUint8, raw(uint8_t{255})).key("i8", Gguf::kInt8, raw(int8_t{-1}));
  gguf.key("u16", Gguf::kUint16, raw(uint16_t{65535})).key("i16", Gguf::kInt16, raw(int16_t{-2}));
  gguf.key("u32", Gguf::kUint32, raw(UINT32_MAX)).key("i32", Gguf::kInt32, raw(int32_t{-3}));
  gguf.key("u64", Gguf::kUint64, raw(UINT64_MAX)).key("i64", 11, raw(INT64_MIN));
  gguf.key("f32", Gguf::kFloat32, raw(0.5f)).key("f64", 12, raw(0.1)).key("bool", Gguf::kBool, raw(uint8_t{1}));
  gguf.key("text", Gguf::kString, Gguf::text("gpt2"));
  gguf.key("list", Gguf::kArray, array(Gguf::kString, 2, Gguf::text("a") + Gguf::text("")));
  gguf.key("lists", Gguf::kArray, array(Gguf::kArray, 1, array(Gguf::kInt8, 2, std::string("\1\2", 2))));
  const auto header = parse(gguf.file(0));
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(
      header->metadata.dump(),
      R"({"u8": 255, "i8": -1, "u16": 65535, "i16": -2, "u32": 4294967295, "i32": -3, "u64": 1.8446744073709552e+19, )"
      R"("i64": -9223372036854775808, "f32": 0.5, "f64": 0.1, "bool": true, "text": "gpt2", "list": ["a", ""], "lists": [[1, 2]]})");
}

TEST(GgufHeader, ShapesAreReversedAndOffsetsAbsolute) {
  const std::string file = Gguf().tensor("w", {64, 3, 2}, kQ8, 0).tensor("b", {5}, kF32, 416).file(436);
  const auto header = parse(file);
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->version, 3u);
  const TensorInfo& w = header->tensors[0];
  EXPECT_EQ(w.shape, Shape({2, 3, 64}));
  EXPECT_EQ(w.dtype, DType::kQ8_0);
  EXPECT_EQ(w.bytes, 408);
  EXPECT_EQ(w.offset, static_cast<int64_t>(file.size()) - 436);
  EXPECT_EQ(header->tensors[1].offset, w.offset + 416);
}

TEST(GgufHeader, AlignmentMovesTheData) {
  Gguf gguf;
  gguf.alignment(256).tensor("a", {4}, kF32, 0).tensor("b", {4}, kF32, 256);
  const auto header = parse(gguf.file(256 + 16, 256));
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->tensors[0].offset % 256, 0);
  EXPECT_SAYS(error_of(Gguf().alignment(256).tensor("a", {4}, kF32, 32).file(512, 256)),
              "no multiple of the alignment 256");
}

TEST(GgufHeader, AlignmentMustBeAPowerOfTwo) {
  EXPECT_SAYS(error_of(Gguf().alignment(0).file(64)), "general.alignment is \"0\", a power of two");
  EXPECT_SAYS(error_of(Gguf().alignment(48).file(64)), "power of two");
  EXPECT_SAYS(error_of(Gguf().key("general.alignment", Gguf::kInt32, raw(-32)).file(64)), "power of two");
  EXPECT_SAYS(error_of(Gguf().key("general.alignment", Gguf::kString, Gguf::text("32")).file(64)), "power of two");
  EXPECT_SAYS(error_of(Gguf().key("general.alignment", Gguf::kFloat32, raw(32.0f)).file(64)), "power of two");
  EXPECT_SAYS(error_of(Gguf().alignment(1u << 30).tensor("a", {4}, kF32, 0).file(64)), "truncated");
}

TEST(GgufHeader, EveryTruncationIsRefused) {
  Gguf gguf;
  gguf.key("k", Gguf::kArray, array(Gguf::kString, 2, Gguf::text("ab") + Gguf::text("c"))).tensor("w", {32}, kF32, 0);
  const std::string whole = gguf.file(128);
  EXPECT_EQ(error_of(whole), "accepted");
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(error_of(whole.substr(0, size)), "accepted") << size;
  EXPECT_SAYS(
      error_of(whole.substr(0, whole.size() - 1)),
      "truncated: " + std::to_string(whole.size()) + " bytes expected, " + std::to_string(whole.size() - 1) + " found");
}

TEST(GgufHeader, APrefixAsksForMoreAndNeverMisjudges) {
  const std::string whole = Gguf().key("k", Gguf::kString, Gguf::text("value")).tensor("w", {32}, kF32, 0).file(128);
  const size_t header_end = whole.size() - 128;
  for (size_t size = 0; size < whole.size(); ++size) {
    bool needs_more = false;
    const auto header = parse_gguf_header(std::as_bytes(std::span(whole.data(), size)),
                                          static_cast<int64_t>(whole.size()), 0, &needs_more);
    EXPECT_NE(header.ok(), needs_more) << size;
    EXPECT_TRUE(header.ok() || size < header_end) << size;
  }
}

TEST(GgufHeader, CountsBeyondTheFileAllocateNothing) {
  Gguf keys;
  keys.n_keys = UINT64_MAX;
  EXPECT_SAYS(error_of(keys.file(100)), "18446744073709551615 metadata keys announced at offset 24, but only");
  Gguf tensors;
  tensors.n_tensors = uint64_t{1} << 60;
  EXPECT_SAYS(error_of(tensors.file(100)), "1152921504606846976 tensors announced");
  for (const uint64_t length : {UINT64_MAX, uint64_t{1} << 63, uint64_t{1} << 30}) {
    EXPECT_SAYS(error_of(Gguf().key("k", Gguf::kString, raw(length)).file(64)),
                std::to_string(length) + " bytes expected");
    EXPECT_SAYS(error_of(Gguf().key("k", Gguf::kArray, array(Gguf::kInt8, length, "")).file(64)),
                std::to_string(length) + " array elements announced");
    EXPECT_SAYS(error_of(Gguf().key("k", Gguf::kArray, array(Gguf::kString, length, "")).file(64)),
                "array elements announced");
  }
}

TEST(GgufHeader, AnArrayIsBoundByItsOwnElementSize) {
  // 15 elements of one byte each are there; read as four-byte elements they would reach beyond the file.
  Gguf gguf;
  gguf.key("k", Gguf::kArray, array(Gguf::kFloat32, 15, std::string(15, '\0')));
  EXPECT_SAYS(error_of("GGUF" + raw(3u) + raw(uint64_t{0}) + raw(uint64_t{1}) + gguf.keys),
              "15 array elements announced");
}

TEST(GgufHeader, ManyElementsAreTooMany) {
  const uint64_t n = (8u << 20) + 1;
  EXPECT_SAYS(error_of(Gguf().key("k", Gguf::kArray, array(Gguf::kBool, n, std::string(n, '\0'))).file(0)),
              "more than 8388608 elements");
}

TEST(GgufHeader, NestedArraysAreBounded) {
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += array(Gguf::kArray, 1, "");
  nested += array(Gguf::kInt8, 0, "");
  EXPECT_SAYS(error_of(Gguf().key("k", Gguf::kArray, nested).file(0)), "nested deeper than 4");
}

TEST(GgufHeader, UnknownValueTypesAreRefused) {
  EXPECT_SAYS(error_of(Gguf().key("k", 13, raw(0)).file(64)), "key \"k\": value type 13 is unknown");
  EXPECT_SAYS(error_of(Gguf().key("k", Gguf::kArray, array(13, 0, "")).file(64)), "array of unknown value type 13");
  EXPECT_SAYS(error_of(Gguf().key("k", Gguf::kBool, raw(uint8_t{2})).file(64)), "boolean of value 2");
}

TEST(GgufHeader, DuplicateKeysAreNamed) {
  EXPECT_SAYS(error_of(Gguf().alignment(32).key("x", Gguf::kBool, raw(uint8_t{0})).alignment(64).file(64)),
              "key \"general.alignment\" is there twice");
}

TEST(GgufHeader, DimensionsAreChecked) {
  const auto with = [](const std::vector<uint64_t>& dims, uint32_t type = kF32) {
    return error_of(Gguf().tensor("w", dims, type, 0).file(4096));
  };
  EXPECT_EQ(with({}), "accepted");  // a scalar
  EXPECT_EQ(with({2, 2, 2, 2}), "accepted");
  EXPECT_SAYS(with({1, 1, 1, 1, 1}), "5 dimensions, at most 4");
  EXPECT_SAYS(with({4, 0}), "dimension of 0 elements");
  EXPECT_SAYS(with({UINT64_MAX}), "dimension of 18446744073709551615");
  EXPECT_SAYS(with({uint64_t{1} << 32, uint64_t{1} << 32}), "63 bits");
  EXPECT_SAYS(with({uint64_t{1} << 31, uint64_t{1} << 31, 4}), "63 bits");  // wraps to 0 in 64 bits
  EXPECT_SAYS(with({uint64_t{1} << 61}), "63 bits");
  EXPECT_SAYS(with({(uint64_t{1} << 61) - 1}), "has no end");  // end passes 2^63
  EXPECT_SAYS(with({uint64_t{1} << 33}), "truncated");         // 2^32 elements more than an int counts
  EXPECT_SAYS(with({33}, kQ8), "does not fill blocks of 32");
  EXPECT_SAYS(with({16, 2}, kQ8), "does not fill blocks of 32");  // a row never shares a block
}

TEST(GgufHeader, OffsetsAreChecked) {
  const auto with = [](uint64_t offset) { return error_of(Gguf().tensor("w", {32}, kF32, offset).file(1024)); };
  EXPECT_EQ(with(896), "accepted");
  EXPECT_SAYS(with(928), "truncated");
  EXPECT_SAYS(with(1), "no multiple of the alignment 32");
  EXPECT_SAYS(with(uint64_t{1} << 62), "beyond the file's");
  EXPECT_SAYS(with(UINT64_MAX - 31), "beyond the file's");
  EXPECT_SAYS(with(4096), "truncated");  // a download that stopped: the next step is to fetch it again
  EXPECT_SAYS(with(4096), "copy it again");
}

TEST(GgufHeader, SizesWhoseSumWrapsAreRefused) {
  const std::vector<uint64_t> quarter = {uint64_t{1} << 60};  // 2^62 bytes; four of them are 2^64
  Gguf gguf;
  for (const char* name : {"a", "b", "c", "d"}) gguf.tensor(name, quarter, kF32, 0);
  EXPECT_SAYS(error_of(gguf.file(1024)), "truncated");
}

TEST(GgufHeader, OverlapsAreRefused) {
  EXPECT_SAYS(error_of(Gguf().tensor("a", {32}, kF32, 0).tensor("b", {32}, kF32, 96).file(1024)),
              "overlaps tensor \"a\"");
  EXPECT_SAYS(error_of(Gguf().tensor("a", {32}, kF32, 0).tensor("b", {32}, kF32, 0).file(1024)), "overlaps");
}

TEST(GgufHeader, ABitFlipNeverLeadsOutsideTheFile) {
  Gguf gguf;
  gguf.alignment(32).key("k", Gguf::kArray, array(Gguf::kString, 2, Gguf::text("ab") + Gguf::text("c")));
  const std::string whole = gguf.tensor("w", {32, 2}, kQ8, 0).tensor("b", {8}, kF32, 96).file(128);
  int accepted = 0;
  for_each_bit_flip(whole, [&](const std::string& flipped) {
    const auto header = parse(flipped);
    if (!header.ok()) return;
    ++accepted;  // in names, data, dimensions that still fit
    EXPECT_TRUE(inside(header->tensors, static_cast<int64_t>(whole.size())));
  });
  EXPECT_GT(accepted, 128 * 8);
}

TEST(GgufHeader, UnknownAndRemovedTypesGiveTheirNumber) {
  EXPECT_SAYS(error_of(Gguf().tensor("w", {32}, 99, 0).file(1024)), "tensor \"w\": type 99 is unknown");
  EXPECT_SAYS(error_of(Gguf().tensor("w", {32}, UINT32_MAX, 0).file(1024)), "type 4294967295 is unknown");
  EXPECT_SAYS(error_of(Gguf().tensor("w", {32}, 31, 0).file(1024)), "type 31 (Q4_0_4_4) was removed");
  EXPECT_SAYS(error_of(Gguf().tensor("w", {32}, 4, 0).file(1024)), "type 4 (Q4_2) was removed");
}

TEST(GgufHeader, OtherVersionsAreRefusedByName) {
  const auto with = [](uint32_t version) {
    Gguf gguf;
    gguf.version = version;
    return error_of(gguf.file(64));
  };
  EXPECT_EQ(with(2), "accepted");
  EXPECT_SAYS(with(1), "GGUF version 1, which is no longer in use");
  EXPECT_SAYS(with(0x03000000), "big-endian GGUF");
  EXPECT_SAYS(with(4), "GGUF version 4; 2 and 3 are known");
  EXPECT_SAYS(with(0), "GGUF version 0");
}

TEST(ShardNames, FiveDigitsOfATotal) {
  const auto name = parse_shard_name("big-model-Q4-00002-of-00013.gguf", ".gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->prefix, "big-model-Q4");
  EXPECT_EQ(name->sibling(13, ".gguf"), "big-model-Q4-00013-of-00013.gguf");
  EXPECT_FALSE(name->is_stray());
  for (const char* stray : {"m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-00001-of-00000.gguf"})
    EXPECT_TRUE(parse_shard_name(stray, ".gguf")->is_stray()) << stray;
  for (const char* other : {"m.gguf", "m-1-of-2.gguf", "-of-00002.gguf", "m-0000a-of-00002.gguf",
                            "m-00001-of-00002.safetensors", "00001-of-00002.gguf", ""})
    EXPECT_FALSE(parse_shard_name(other, ".gguf")) << other;
}

class GgufFiles : public FolderTest {
 protected:
  // Shard `no` of `count` with F32 tensors of these names.
  static std::string shard(int no, int count, int total, const std::vector<std::string>& names) {
    Gguf gguf;
    if (no == 0) gguf.key("general.architecture", Gguf::kString, Gguf::text("qwen3moe"));
    gguf.key("split.no", Gguf::kUint16, raw(static_cast<uint16_t>(no)));
    gguf.key("split.count", Gguf::kUint16, raw(static_cast<uint16_t>(count)));
    gguf.key("split.tensors.count", Gguf::kInt32, raw(total));
    for (size_t i = 0; i < names.size(); ++i) gguf.tensor(names[i], {8}, kF32, 32 * i);
    return gguf.file(32 * names.size());
  }
  void write_set() const {
    write("m-00001-of-00003.gguf", shard(0, 3, 3, {}));  // metadata only, as a common option of the splitter gives it
    write("m-00002-of-00003.gguf", shard(1, 3, 3, {"a", "b"}));
    write("m-00003-of-00003.gguf", shard(2, 3, 3, {"c"}));
  }
};

TEST_F(GgufFiles, AnyShardOpensTheSet) {
  write_set();
  for (const std::string& p : {folder, path("m-00001-of-00003.gguf"), path("m-00003-of-00003.gguf")}) {
    const auto catalog = open_catalog(p);
    ASSERT_TRUE(catalog.ok()) << catalog.error().message;
    EXPECT_EQ(catalog->format(), Format::kGguf);
    EXPECT_EQ(catalog->files().size(), 3u);
    EXPECT_EQ(catalog->find("b")->file, 1);
    EXPECT_EQ(catalog->metadata().find("general.architecture")->as_string(), "qwen3moe");
  }
}

TEST_F(GgufFiles, MissingShardsAreListed) {
  write_set();
  std::filesystem::remove(path("m-00001-of-00003.gguf"));
  std::filesystem::remove(path("m-00003-of-00003.gguf"));
  EXPECT_SAYS(open_error(folder), "2 of 3 shards are missing: \"m-00001-of-00003.gguf\", \"m-00003-of-00003.gguf\"");
}

TEST_F(GgufFiles, NumbersBeyondTheSetAreListed) {
  write_set();
  write("other-00009-of-00003.gguf", shard(0, 3, 3, {}));  // of another set
  for (const char* stray : {"m-00004-of-00003.gguf", "m-00000-of-00003.gguf"}) {
    write(stray, shard(0, 3, 3, {}));
    for (const std::string& p : {path(stray), path("m-00001-of-00003.gguf")})
      EXPECT_SAYS(open_error(p), std::string("holds 1 files that cannot be among 3 shards: \"") + stray + "\"");
    std::filesystem::remove(path(stray));
  }
  EXPECT_EQ(open_error(path("m-00001-of-00003.gguf")), "opened with 3 tensors");
}

TEST_F(GgufFiles, SwappedAndCopiedShardsAreNamed) {
  write_set();
  write("m-00002-of-00003.gguf", shard(2, 3, 3, {"c"}));
  EXPECT_SAYS(open_error(folder),
              path("m-00002-of-00003.gguf") + ": is shard 3 of 3 by its content, 2 of 3 by its name");
  write("m-00002-of-00003.gguf", shard(1, 4, 3, {"a", "b"}));
  EXPECT_SAYS(open_error(folder), "is shard 2 of 4 by its content");
}

TEST_F(GgufFiles, ShardsOfAnotherModelAreNoticed) {
  write_set();
  write("m-00002-of-00003.gguf", shard(1, 3, 9, {"x"}));
  EXPECT_SAYS(open_error(folder), "the shards hold 2 tensors, split.tensors.count says 3");
  write("m-00002-of-00003.gguf", shard(1, 3, 3, {"a", "c"}));
  EXPECT_SAYS(open_error(folder), path("m-00003-of-00003.gguf") + ": tensor \"c\" is there twice, also in " +
                                      path("m-00002-of-00003.gguf"));
}

TEST_F(GgufFiles, ARenamedShardSaysSo) {
  write("model.gguf", shard(0, 2, 1, {"a"}));
  EXPECT_SAYS(open_error(folder), "is one of 2 shards, but its name");
}

TEST_F(GgufFiles, DuplicateTensorsAreRefused) {
  write("m.gguf", Gguf().tensor("a", {8}, kF32, 0).tensor("a", {8}, kF32, 32).file(64));
  EXPECT_SAYS(open_error(path("m.gguf")), "tensor \"a\" is there twice");
}

TEST_F(GgufFiles, AHeaderLongerThanTheFirstReadOpens) {
  Gguf gguf;
  const std::string token = Gguf::text(std::string(100, 't'));
  std::string items;
  for (int i = 0; i < 30000; ++i) items += token;
  gguf.key("tokens", Gguf::kArray, array(Gguf::kString, 30000, items)).tensor("a", {8}, kF32, 0);
  write("m.gguf", gguf.file(32));
  const auto catalog = open_catalog(path("m.gguf"));
  ASSERT_TRUE(catalog.ok()) << catalog.error().message;
  EXPECT_EQ(catalog->metadata().find("tokens")->as_array().size(), 30000u);
}

TEST_F(GgufFiles, AFolderWithSeveralModelsIsNotGuessed) {
  write("a.gguf", Gguf().file(0));
  EXPECT_EQ(open_error(folder), "opened with 0 tensors");
  write_set();
  EXPECT_SAYS(open_error(folder), "holds 2 GGUF models, name one of them: \"a.gguf\", \"m-00001-of-00003.gguf\"");
}

TEST_F(GgufFiles, ContentCountsNotTheExtension) {
  write("model.bin", Gguf().file(0));
  EXPECT_EQ(open_error(path("model.bin")), "opened with 0 tensors");
  write("page.gguf", "<html>");
  EXPECT_SAYS(open_error(path("page.gguf")), "web page");
  write("old.gguf", "lmgg\1");
  EXPECT_SAYS(open_error(path("old.gguf")), "older than GGUF");
  write("short.gguf", "GGU");
  EXPECT_SAYS(open_error(path("short.gguf")), "is a text that begins with \"GGU\"");
  write("noise.gguf", std::string(64, '\xfe'));
  EXPECT_SAYS(open_error(path("noise.gguf")), "is no GGUF file");
}

}  // namespace
}  // namespace colibri::formats

#include "formats/safetensors.h"

#include "formats/test_files.h"

namespace colibri::formats {
namespace {

std::string header_error(std::string_view header, int64_t file_bytes = 8 + 1000) {
  const auto tensors = parse_safetensors_header(header, 8, file_bytes, 0);
  if (tensors.ok()) return "accepted";
  EXPECT_EQ(tensors.error().code, ErrorCode::kInvalidModel);
  return tensors.error().message;
}

std::string entry(const char* dtype, const char* shape, const char* offsets) {
  return std::string(R"({"x": {"dtype": ")") + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" + offsets +
         "}}";
}

TEST(SafetensorsHeader, GivesPlacesInTheFile) {
  const auto tensors = parse_safetensors_header(
      R"({"__metadata__": {"format": "pt"}, "a.weight": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [4, 16]},
          "s": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}, "none": {"dtype": "I8", "shape": [0, 5], "data_offsets": [16, 16]}})",
      200, 216, 7);
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 3u);
  const TensorInfo& a = (*tensors)[0];
  EXPECT_EQ(a.name, "a.weight");
  EXPECT_EQ(a.dtype, DType::kBF16);
  EXPECT_EQ(a.shape, Shape({2, 3}));
  EXPECT_EQ(a.file, 7);
  EXPECT_EQ(a.offset, 204);
  EXPECT_EQ(a.bytes, 12);
  EXPECT_EQ((*tensors)[1].shape.size(), 0);
  EXPECT_EQ((*tensors)[2].bytes, 0);
}

TEST(SafetensorsHeader, SubByteTypesFillWholeBlocks) {
  EXPECT_EQ(header_error(entry("F4", "[2, 3]", "[0, 3]"), 8 + 3), "accepted");
  EXPECT_SAYS(header_error(entry("F4", "[3]", "[0, 2]"), 8 + 2), "does not fill blocks of 2");
}

TEST(SafetensorsHeader, ShapesMustFitTheirRange) {
  EXPECT_SAYS(header_error(entry("F32", "[2, 2]", "[0, 12]")),
              "tensor \"x\": shape [2, 2] of F32 needs 16 bytes, data_offsets span 12");
  EXPECT_SAYS(header_error(entry("F32", "[4611686018427387904, 4]", "[0, 0]")), "63 bits");
  EXPECT_SAYS(header_error(entry("F32", "[4611686018427387904]", "[0, 0]")), "63 bits");
  EXPECT_SAYS(header_error(entry("F32", "[-1]", "[0, 4]")), "negative dimension -1");
  EXPECT_SAYS(header_error(entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0, 4]")), "9 dimensions, at most 8");
  EXPECT_SAYS(header_error(entry("F32", "[1.0]", "[0, 4]")), "integers are needed");
  EXPECT_SAYS(header_error(entry("F32", "[18446744073709551615]", "[0, 4]")), "integers are needed");
  EXPECT_SAYS(header_error(entry("F32", "\"1\"", "[0, 4]")), "no list \"shape\"");
}

TEST(SafetensorsHeader, RangesAreChecked) {
  EXPECT_SAYS(header_error(entry("F32", "[1]", "[4, 0]")), "[4, 0] are no range");
  EXPECT_SAYS(header_error(entry("F32", "[1]", "[-4, 0]")), "are no range");
  EXPECT_SAYS(header_error(entry("F32", "[1]", "[0]")), "are no range");
  EXPECT_SAYS(header_error(entry("F32", "[1]", "[9223372036854775803, 9223372036854775807]")), "are no range");
  EXPECT_SAYS(header_error(entry("F32", "[300]", "[0, 1200]")), "truncated: 1208 bytes expected, 1008 found");
}

TEST(SafetensorsHeader, OverlapsAndHolesAreRefused) {
  const auto two = [](const char* b) {
    return std::string(R"({"a": {"dtype": "U8", "shape": [600], "data_offsets": [0, 600]}, "b": )") + b + "}";
  };
  EXPECT_EQ(header_error(two(R"({"dtype": "U8", "shape": [400], "data_offsets": [600, 1000]})")), "accepted");
  EXPECT_SAYS(header_error(two(R"({"dtype": "U8", "shape": [401], "data_offsets": [599, 1000]})")),
              "tensor \"b\" (bytes 607 to 1008) overlaps tensor \"a\" (bytes 8 to 608)");
  EXPECT_SAYS(header_error(two(R"({"dtype": "U8", "shape": [600], "data_offsets": [0, 600]})")), "overlaps");
  EXPECT_SAYS(header_error(two(R"({"dtype": "U8", "shape": [399], "data_offsets": [601, 1000]})")),
              "1 bytes at 608 belong to no tensor");
  EXPECT_SAYS(header_error(two(R"({"dtype": "U8", "shape": [399], "data_offsets": [600, 999]})")),
              "before the end of the file");
  EXPECT_SAYS(header_error(two(R"({"dtype": "U8", "shape": [0], "data_offsets": [2000, 2000]})")), "truncated");
}

TEST(SafetensorsHeader, EmptyTensorsMayShareAPlaceButHideNoBytes) {
  EXPECT_EQ(header_error(R"({"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]},
                             "b": {"dtype": "F32", "shape": [3, 0], "data_offsets": [0, 0]}})",
                         8),
            "accepted");
  EXPECT_SAYS(header_error(entry("U8", "[0]", "[0, 4]")), "needs 0 bytes, data_offsets span 4");
  EXPECT_SAYS(header_error(entry("U8", "[4]", "[0, 0]")), "needs 4 bytes, data_offsets span 0");
}

TEST(SafetensorsHeader, ABitFlipNeverLeadsOutsideTheFile) {
  const std::string header = R"({"a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [4, 16]},)"
                             R"("s": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}})";
  int accepted = 0;
  for_each_bit_flip(header, [&](const std::string& flipped) {
    const auto tensors = parse_safetensors_header(flipped, 200, 216, 0);
    if (!tensors.ok()) return;
    ++accepted;  // in names, or BF16 turned into another type of two bytes
    EXPECT_TRUE(inside(*tensors, 216));
  });
  EXPECT_GT(accepted, 10);
}

TEST(SafetensorsHeader, DamagedEntriesAreNamed) {
  EXPECT_SAYS(header_error("[]"), "no JSON object");
  EXPECT_SAYS(header_error("{\"x\": 1}"), "tensor \"x\": is described by \"1\"");
  EXPECT_SAYS(header_error("{\"x\": {}}"), "no \"dtype\"");
  EXPECT_SAYS(header_error(entry("Q8_0", "[1]", "[0, 4]")), "dtype \"Q8_0\" is unknown");
  EXPECT_SAYS(header_error("{\"__metadata__\": {\"a\": 1}}"), "object of strings");
  EXPECT_SAYS(header_error(R"({"x": {}, "x": {}})"), "duplicate key \"x\"");
  EXPECT_SAYS(header_error("{\"x\": "), "JSON line 1, column 7");
  EXPECT_SAYS(header_error("{\"a\\nb\\u001b[31m\": 1}"),
              "tensor \"a\\nb\\u001b[31m\"");  // no control characters in messages
}

class SafetensorsFiles : public FolderTest {};

TEST_F(SafetensorsFiles, OpensAndReads) {
  write("model.safetensors", safetensors_with({"a", "b"}));
  for (const std::string& p : {folder, path("model.safetensors")}) {
    const auto catalog = open_catalog(p);
    ASSERT_TRUE(catalog.ok()) << catalog.error().message;
    EXPECT_EQ(catalog->format(), Format::kSafetensors);
    EXPECT_EQ(catalog->find("c"), nullptr);
    const TensorInfo* b = catalog->find("b");
    ASSERT_NE(b, nullptr);
    std::byte two[2];
    ASSERT_TRUE(catalog->read(*b, 1, two).ok());
    EXPECT_EQ(two[0], std::byte{5});
    EXPECT_EQ(two[1], std::byte{6});
  }
}

TEST_F(SafetensorsFiles, EveryTruncationIsRefused) {
  const std::string whole = safetensors_with({"a", "b"});
  for (size_t size = 0; size < whole.size(); ++size) {
    write("m.safetensors", whole.substr(0, size));
    const std::string error = open_error(path("m.safetensors"));
    EXPECT_SAYS(error, path("m.safetensors") + ": ");
    if (size > 8) {
      EXPECT_SAYS(error, "truncated");
      EXPECT_SAYS(error, "found");
    }
  }
}

TEST_F(SafetensorsFiles, BytesAfterTheDataAreRefused) {
  write("m.safetensors", safetensors_with({"a"}) + "x");
  EXPECT_SAYS(open_error(path("m.safetensors")), "1 bytes at");
}

TEST_F(SafetensorsFiles, AHugeHeaderLengthAllocatesNothing) {
  for (const uint64_t length : {uint64_t{100'000'001}, uint64_t{1} << 62, UINT64_MAX}) {
    write("m.safetensors", raw(length) + "{}" + std::string(100, '\0'));
    EXPECT_SAYS(open_error(path("m.safetensors")),
                "header of " + std::to_string(length) + " bytes (at most 100000000)");
  }
  write("m.safetensors", raw(uint64_t{99'999'999}) + "{}");
  EXPECT_SAYS(open_error(path("m.safetensors")), "truncated: a header of 99999999 bytes expected, 2 found");
}

TEST_F(SafetensorsFiles, OtherThingsAreCalledByTheirName) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "is empty"},
      {"\n<!DOCTYPE html><html>", "web page"},
      {"<HTML><body>401", "web page"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n",
       "Git LFS pointer, not the file itself (the file has 4976698672 bytes)"},
      {std::string("PK\x03\x04", 4) + "archive/data.pkl", "PyTorch"},
      {"\x80\x02}q\x01(X", "pickle"},
      {"Entry not found", "is a text that begins with \"Entry not found\""},
      {"tjgg\x03", "older than GGUF"},
      {std::string("\x1f\x8b\x08\x00", 4), "gzip"},
      {"\x01\x02\x03\x04\x05\x06\x07\x08\x09", "is no safetensors file"}};
  for (const auto& [bytes, words] : cases) {
    write("model.safetensors", bytes);
    EXPECT_SAYS(open_error(folder), words);
    EXPECT_SAYS(open_error(folder), path("model.safetensors"));
  }
}

TEST_F(SafetensorsFiles, AHeaderThatLooksLikeAPickleIsNone) {
  std::string header = R"({"x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})";
  header.resize(0x0280, ' ');  // its length begins with the bytes 80 02
  write("m.safetensors", safetensors_file(header, 1));
  EXPECT_EQ(open_error(path("m.safetensors")), "opened with 1 tensors");
}

}  // namespace
}  // namespace colibri::formats

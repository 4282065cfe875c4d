#include "base/foreign_text.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

std::string error_of(std::string_view text) {
  const auto json = parse_json_file(text);
  return json.ok() ? "parsed" : json.error().message;
}

TEST(ForeignText, PointersOfGitLfsAreNamedWithTheSizeOfTheFile) {
  EXPECT_EQ(
      error_of("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1234\n"),
      "is a Git LFS pointer, not the file itself (the file has 1234 bytes): run git lfs pull, or download the file");
  EXPECT_EQ(error_of("version https://git-lfs.github.com/spec/v1"),
            "is a Git LFS pointer, not the file itself: run git lfs pull, or download the file");
}

TEST(ForeignText, WebPagesAndEmptyFilesAreNamed) {
  for (const char* page : {"<!DOCTYPE html>", "\r\n <HTML lang=en>", "<?xml version='1.0'?>"})
    EXPECT_EQ(error_of(page).find("is a web page, not a file of a model"), 0u) << page;
  EXPECT_EQ(error_of(""), "is empty: download or copy it again");
}

TEST(ForeignText, JsonIsParsedAndItsErrorsStayThoseOfTheParser) {
  EXPECT_EQ(parse_json_file(R"({"a":1})")->find("a")->as_int(), 1);
  for (const char* text : {"{", "plain", " <", "[1] <html>"}) {
    ASSERT_FALSE(parse_json(text).ok());
    EXPECT_EQ(error_of(text), parse_json(text).error().message);
  }
}

}  // namespace
}  // namespace colibri

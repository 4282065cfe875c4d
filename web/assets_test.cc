#include "assets.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace colibri::server {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Assets, HaveTheBytesOfTheFiles) {
  const std::filesystem::path web = std::filesystem::path(COLIBRI_SOURCE_DIR) / "web";
  for (const Asset& asset : assets()) {
    const std::string name = asset.path == "/" ? "/index.html" : std::string(asset.path);
    const std::string expected = read(web.string() + name);
    EXPECT_FALSE(expected.empty()) << name;
    EXPECT_TRUE(asset.bytes == expected) << name;
  }
}

TEST(Assets, AreEveryFileThatThePageNames) {
  for (const char* path : {"/", "/ui/main.js", "/ui/style.css", "/ui/icon.svg"})
    EXPECT_NE(find_asset(path), nullptr) << path;
  for (const char* path : {"", "/index.html", "/ui", "/ui/", "/ui/main.j", "/README.md"})
    EXPECT_EQ(find_asset(path), nullptr) << path;
}

TEST(Assets, AreFoundByPathAndHaveTagsOfTheirOwn) {
  std::set<std::string_view> tags;
  for (const Asset& asset : assets()) {
    EXPECT_EQ(find_asset(asset.path), &asset);
    EXPECT_EQ(asset.etag.size(), 22U);
    EXPECT_TRUE(asset.etag.front() == '"' && asset.etag.back() == '"');
    tags.insert(asset.etag);
  }
  EXPECT_EQ(tags.size(), assets().size());
}

TEST(Assets, StaySmall) {
  size_t total = 0;
  for (const Asset& asset : assets()) total += asset.bytes.size();
  EXPECT_LT(total, 150U * 1024);
}

}  // namespace
}  // namespace colibri::server

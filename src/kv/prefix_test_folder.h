// For tests: an empty folder that goes away afterwards, and what lies in it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "platform/file.h"

namespace colibri::kv {

class PrefixFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "colibri-prefix-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string& name) const { return platform::join(folder, name); }
  std::vector<std::string> names() const { return platform::list_directory(folder).value(); }
  std::string bytes(const std::string& name) const { return platform::read_text_file(path(name), 1 << 26).value(); }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
  }

  std::string folder;
};

}  // namespace colibri::kv

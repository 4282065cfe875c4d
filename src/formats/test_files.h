// For the tests of this folder: a temporary folder, and writers that can also write what no honest tool would.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "formats/catalog.h"

namespace colibri::formats {

/// A fixture with an empty folder that goes away afterwards.
class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "colibri-formats-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(std::string_view name) const { return platform::join(folder, name); }
  void write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  std::string folder;
};

/// The error of opening `path`, or what was opened.
inline std::string open_error(const std::string& path) {
  const auto catalog = open_catalog(path);
  if (catalog.ok()) return "opened with " + std::to_string(catalog->tensors().size()) + " tensors";
  EXPECT_EQ(catalog.error().code, ErrorCode::kInvalidModel);
  EXPECT_EQ(catalog.error().message.find('\n'), std::string::npos) << "errors are one line";
  return catalog.error().message;
}

#define EXPECT_SAYS(message, words) EXPECT_NE((message).find(words), std::string::npos) << (message)

template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// A safetensors file with this JSON header and `data_bytes` bytes 0, 1, 2, ... of data.
inline std::string safetensors_file(std::string_view header, size_t data_bytes) {
  std::string bytes = raw(static_cast<uint64_t>(header.size())).append(header);
  for (size_t i = 0; i < data_bytes; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

/// A safetensors file with F32 tensors [1] of these names.
inline std::string safetensors_with(const std::vector<std::string>& names) {
  std::string header = "{";
  for (size_t i = 0; i < names.size(); ++i) {
    header += (i > 0 ? ", \"" : "\"") + names[i] + R"(": {"dtype": "F32", "shape": [1], "data_offsets": [)" +
              std::to_string(4 * i) + ", " + std::to_string(4 * i + 4) + "]}";
  }
  return safetensors_file(header + "}", 4 * names.size());
}

/// Writes GGUF files piece by piece.
class Gguf {
 public:
  enum : uint32_t { kUint8, kInt8, kUint16, kInt16, kUint32, kInt32, kFloat32, kBool, kString, kArray, kUint64 };

  static std::string text(std::string_view s) { return raw(static_cast<uint64_t>(s.size())).append(s); }

  Gguf& key(std::string_view name, uint32_t type, const std::string& value) {
    ++n_keys;
    keys += text(name) + raw(type) + value;
    return *this;
  }
  Gguf& alignment(uint32_t value) { return key("general.alignment", kUint32, raw(value)); }
  /// `dims` as GGUF has them, fastest first.
  Gguf& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    ++n_tensors;
    tensors += text(name) + raw(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensors += raw(dim);
    tensors += raw(type) + raw(offset);
    return *this;
  }
  /// The file, with `data_bytes` bytes of data after the padding.
  std::string file(size_t data_bytes, size_t alignment = 32) const {
    std::string bytes = "GGUF" + raw(version) + raw(n_tensors) + raw(n_keys) + keys + tensors;
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
    return bytes.append(data_bytes, '\1');
  }

  uint32_t version = 3;
  uint64_t n_tensors = 0, n_keys = 0;
  std::string keys, tensors;
};

/// Whether later reads of these tensors stay inside the file.
inline bool inside(const std::vector<TensorInfo>& tensors, int64_t file_bytes) {
  for (const TensorInfo& tensor : tensors)
    if (tensor.offset < 0 || tensor.bytes < 0 || tensor.bytes > file_bytes - tensor.offset) return false;
  return true;
}

/// Calls f with every text that differs from `bytes` in one bit.
template <typename F>
void for_each_bit_flip(std::string bytes, F&& f) {
  for (size_t i = 0; i < 8 * bytes.size(); ++i) {
    const auto mask = static_cast<char>(1 << i % 8);
    bytes[i / 8] = static_cast<char>(bytes[i / 8] ^ mask);
    f(bytes);
    bytes[i / 8] = static_cast<char>(bytes[i / 8] ^ mask);
  }
}

/// Where the shared test data lie; empty when they are not there.
inline std::string shared_folder() {
  const char* variable = std::getenv("COLIBRI_SHARED");
  const std::string folder = variable != nullptr ? variable : COLIBRI_SOURCE_DIR "/../shared";
  return platform::is_directory(folder) ? folder : "";
}

}  // namespace colibri::formats

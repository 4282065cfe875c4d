// For tests: a safetensors file of F32 matrices whose element (r, c) is 100 r + c.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "formats/catalog.h"

namespace colibri::store {

struct MatrixShape {
  std::string name;
  int64_t rows, inputs;
};

class MatrixFile {
 public:
  explicit MatrixFile(const std::vector<MatrixShape>& matrices)
      : path_(std::filesystem::temp_directory_path() /
              ("colibri_store_test_" + std::to_string(::getpid()) + ".safetensors")) {
    std::string header;
    int64_t at = 0;
    for (const MatrixShape& m : matrices) {
      const int64_t end = at + m.rows * m.inputs * 4;
      header += (header.empty() ? "{\"" : ",\"") + m.name + "\":{\"dtype\":\"F32\",\"shape\":[" +
                std::to_string(m.rows) + "," + std::to_string(m.inputs) + "],\"data_offsets\":[" + std::to_string(at) +
                "," + std::to_string(end) + "]}";
      at = end;
    }
    header += "}";
    const uint64_t length = header.size();
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), 8);
    file << header;
    for (const MatrixShape& m : matrices) write_matrix(file, m);
  }
  ~MatrixFile() { std::filesystem::remove(path_); }
  MatrixFile(const MatrixFile&) = delete;
  MatrixFile& operator=(const MatrixFile&) = delete;

  formats::TensorCatalog open() const { return *formats::open_catalog(path_.string()); }
  std::string path() const { return path_.string(); }

 private:
  static void write_matrix(std::ofstream& file, const MatrixShape& m) {
    std::vector<float> row(static_cast<size_t>(m.inputs));
    for (int64_t r = 0; r < m.rows; ++r) {
      for (int64_t c = 0; c < m.inputs; ++c) row[static_cast<size_t>(c)] = static_cast<float>(100 * r + c);
      file.write(reinterpret_cast<const char*>(row.data()), m.inputs * 4);
    }
  }
  std::filesystem::path path_;
};

}  // namespace colibri::store

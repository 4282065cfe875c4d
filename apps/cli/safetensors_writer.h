// Writes a safetensors file whose data arrives piece by piece and is never in memory as a whole.
//
// Tensors are appended one after the other; the header, which stands in front and is only known at the end, gets room
// beforehand and is padded with blanks, as the format allows. Same tensors, same bytes: nothing that varies is written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/output.h"

namespace colibri::cli {

using namespace common;

class SafetensorsWriter {
 public:
  /// Room for `max_tensors` tensors with names of up to `max_name` bytes.
  static Outcome<SafetensorsWriter> create(OutputFile file, size_t max_tensors, size_t max_name);

  /// Starts the next tensor, whose bytes follow with append().
  void begin(const std::string& name, const char* dtype, std::vector<int64_t> shape);
  Status append(const void* data, size_t bytes);
  /// Writes the header and gives the file its name.
  Status finish();

 private:
  struct Entry {
    std::string dtype;
    std::vector<int64_t> shape;
    uint64_t begin = 0, end = 0;
  };
  SafetensorsWriter(OutputFile file, size_t header_bytes) : file_(std::move(file)), header_bytes_(header_bytes) {}
  std::string header() const;

  OutputFile file_;
  size_t header_bytes_;
  std::map<std::string, Entry> entries_;  // sorted by name, as the header is
  Entry* open_ = nullptr;
  uint64_t offset_ = 0;
};

}  // namespace colibri::cli

#include "safetensors_writer.h"

namespace colibri::cli {
namespace {

constexpr size_t kAlignment = 8;
constexpr size_t kEntryBytes = 160;  // an entry besides its name: dtype, two dimensions and two offsets of 20 digits

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
  return "[" + text + "]";
}

std::string little_endian(uint64_t number) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

}  // namespace

Outcome<SafetensorsWriter> SafetensorsWriter::create(OutputFile file, size_t max_tensors, size_t max_name) {
  const size_t wanted = 2 + max_tensors * (kEntryBytes + max_name);
  const size_t header_bytes = (wanted + kAlignment - 1) / kAlignment * kAlignment;
  if (Status written = file.write(std::string(sizeof(uint64_t) + header_bytes, ' ')); !written) return written.error();
  return SafetensorsWriter(std::move(file), header_bytes);
}

void SafetensorsWriter::begin(const std::string& name, const char* dtype, std::vector<int64_t> shape) {
  open_ = &entries_[name];
  *open_ = {dtype, std::move(shape), offset_, offset_};
}

Status SafetensorsWriter::append(const void* data, size_t bytes) {
  offset_ += bytes;
  open_->end = offset_;
  return file_.write({static_cast<const char*>(data), bytes});
}

std::string SafetensorsWriter::header() const {
  std::string text = "{";
  for (const auto& [name, entry] : entries_) {
    if (text.size() > 1) text += ",";
    text += "\"" + name + "\":{\"dtype\":\"" + entry.dtype + "\",\"shape\":" + shape_text(entry.shape) +
            ",\"data_offsets\":[" + std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]}";
  }
  return text + "}";
}

Status SafetensorsWriter::finish() {
  std::string text = header();
  if (text.size() > header_bytes_) {
    return run_error("the header needs " + std::to_string(text.size()) + " bytes, but there is room for " +
                     std::to_string(header_bytes_));
  }
  text.resize(header_bytes_, ' ');
  if (Status written = file_.rewrite_start(little_endian(header_bytes_) + text); !written) return written;
  return file_.commit();
}

}  // namespace colibri::cli

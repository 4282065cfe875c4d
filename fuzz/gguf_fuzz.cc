// A GGUF header. Input: one byte b, then the file's beginning; the file goes on for another 64 KiB times b.
#include "formats/gguf.h"
#include "fuzz.h"
#include "ranges.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  const int64_t file_bytes = static_cast<int64_t>(bytes.size()) + data[0] * int64_t{65536};
  bool needs_more = false;
  const auto header = colibri::formats::parse_gguf_header(bytes, file_bytes, 0, &needs_more);
  COLIBRI_CHECK(!needs_more || (!header.ok() && data[0] != 0));  // never when the whole file was there
  if (header.ok()) colibri::fuzz::check_tensors(header->tensors, file_bytes);

  // A prefix may ask for more; when it does not, it must say what the whole says.
  bool prefix_needs_more = false;
  const auto prefix =
      colibri::formats::parse_gguf_header(bytes.first(bytes.size() / 2), file_bytes, 0, &prefix_needs_more);
  COLIBRI_CHECK(prefix_needs_more || prefix.ok() == header.ok());
  if (prefix.ok()) COLIBRI_CHECK(prefix->metadata.dump() == header->metadata.dump());
  return 0;
}

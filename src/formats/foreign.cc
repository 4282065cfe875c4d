#include "formats/foreign.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "base/foreign_text.h"
#include "formats/layout.h"

namespace colibri::formats {
namespace {

bool is_text(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    return std::isprint(static_cast<unsigned char>(c)) || std::isspace(static_cast<unsigned char>(c));
  });
}

}  // namespace

std::string describe_foreign(std::string_view head) {
  if (std::string text = describe_foreign_text(head); !text.empty()) return text;
  if (head.starts_with("PK\x03\x04"))
    return "is a zip archive, as PyTorch writes checkpoints: convert it to safetensors first";
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return "is a Python pickle, as PyTorch writes checkpoints: convert it to safetensors first";
  if (head.starts_with("lmgg") || head.starts_with("fmgg") || head.starts_with("tjgg") || head.starts_with("algg"))
    return "is in a GGML format older than GGUF: convert the original model to GGUF";
  if (head.starts_with("\x1f\x8b")) return "is compressed with gzip: unpack it first";
  if (is_text(head)) return "is a text that begins with " + quoted(head.substr(0, 40)) + ", not a model";
  return {};
}

Result<std::string> head_of(const platform::File& file) {
  std::string head(static_cast<size_t>(std::min<int64_t>(512, file.size_bytes())), '\0');
  COLIBRI_TRY(file.read_at(0, std::as_writable_bytes(std::span(head))));
  return head;
}

}  // namespace colibri::formats

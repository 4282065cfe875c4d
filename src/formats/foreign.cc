#include "formats/foreign.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "formats/layout.h"

namespace colibri::formats {
namespace {

// Whether a text begins with `word` after blank space, whatever the case. `word` is lower case.
bool begins(std::string_view text, std::string_view word) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  if (text.size() < word.size()) return false;
  return std::equal(word.begin(), word.end(), text.begin(),
                    [](char w, char t) { return w == std::tolower(static_cast<unsigned char>(t)); });
}

std::string describe_lfs(std::string_view head) {
  std::string size;
  if (const size_t at = head.find("\nsize "); at != std::string_view::npos) {
    const std::string_view rest = head.substr(at + 6);
    size = " (the file has " + std::string(rest.substr(0, std::min(rest.find('\n'), size_t{20}))) + " bytes)";
  }
  return "is a Git LFS pointer, not the file itself" + size + ": run git lfs pull, or download the file";
}

bool is_text(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    return std::isprint(static_cast<unsigned char>(c)) || std::isspace(static_cast<unsigned char>(c));
  });
}

}  // namespace

std::string describe_foreign(std::string_view head) {
  if (head.empty()) return "is empty: download or copy it again";
  if (head.starts_with("version https://git-lfs")) return describe_lfs(head);
  if (begins(head, "<!doctype") || begins(head, "<html") || begins(head, "<?xml"))
    return "is a web page, not a model: the download failed (a login or licence page?), fetch it again";
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

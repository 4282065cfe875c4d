#include "base/foreign_text.h"

#include <algorithm>
#include <cctype>

namespace colibri {
namespace {

// Whether a text begins with `word` after blank space, whatever the case. `word` is lower case.
bool begins(std::string_view text, std::string_view word) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  if (text.size() < word.size()) return false;
  return std::equal(word.begin(), word.end(), text.begin(),
                    [](char w, char t) { return w == std::tolower(static_cast<unsigned char>(t)); });
}

std::string describe_lfs(std::string_view head) {
  constexpr size_t kMostDigits = 19;
  std::string size;
  if (const size_t at = head.find("\nsize "); at != std::string_view::npos) {
    const std::string_view rest = head.substr(at + 6);
    const std::string_view digits = rest.substr(0, std::min(rest.find_first_not_of("0123456789"), kMostDigits));
    size = " (the file has " + std::string(digits) + " bytes)";
  }
  return "is a Git LFS pointer, not the file itself" + size + ": run git lfs pull, or download the file";
}

}  // namespace

std::string describe_foreign_text(std::string_view head) {
  if (head.empty()) return "is empty: download or copy it again";
  if (head.starts_with("version https://git-lfs")) return describe_lfs(head);
  if (begins(head, "<!doctype") || begins(head, "<html") || begins(head, "<?xml"))
    return "is a web page, not a file of a model: the download failed (a login or licence page?), fetch it again";
  return {};
}

Result<Json> parse_json_file(std::string_view text) {
  if (std::string what = describe_foreign_text(text); !what.empty())
    return Error{ErrorCode::kInvalidModel, std::move(what)};
  return parse_json(text);
}

}  // namespace colibri

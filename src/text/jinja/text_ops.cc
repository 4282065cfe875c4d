#include "text/jinja/text_ops.h"

#include <string.h>  // memmem

#include <algorithm>

#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

bool ends_line(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

size_t find_text(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  if (needle.size() > text.size() - from) return std::string_view::npos;
  const void* at = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return at == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(at) - text.data());
}

Result<size_t> find_last_text(Runtime& rt, std::string_view text, std::string_view needle) {
  constexpr uint64_t kBytesPerStep = 4096;  // most comparisons end at the first byte
  COLIBRI_TRY(
      rt.step(static_cast<int64_t>(std::min<uint64_t>(text.size() * needle.size() / kBytesPerStep, INT32_MAX))));
  return text.rfind(needle);
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = pos;
    const char32_t c = next_code_point(text, pos);
    if (!ends_line(c)) continue;
    if (c == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    lines.push_back(text.substr(start, (keep_ends ? pos : end) - start));
    start = pos;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string_view replace_text(Heap& heap, std::string_view text, std::string_view from, std::string_view to,
                              int64_t count) {
  TextBuilder out(heap);
  size_t copied = 0;
  size_t at = find_text(text, from);
  for (int64_t done = 0; at != std::string_view::npos && done != count && !heap.exhausted(); ++done) {
    out.append(text.substr(copied, at - copied));
    out.append(to);
    copied = at + from.size();
    if (from.empty() && at == text.size()) break;
    at = from.empty() ? at + code_point_bytes(text[at]) : find_text(text, from, copied);
  }
  out.append(text.substr(copied));
  return out.finish();
}

std::string_view justify(Heap& heap, std::string_view text, int64_t width, std::string_view fill, Justify how) {
  const auto size = static_cast<int64_t>(count_code_points(text));
  if (width <= size) return text;
  const int64_t missing = width - size;
  int64_t left = how == Justify::kLeft ? 0 : missing;
  if (how == Justify::kCenter) left = missing / 2 + (missing & width & 1);
  TextBuilder out(heap);
  if (left > 0) out.append(static_cast<uint64_t>(left), fill);
  out.append(text);
  if (missing > left) out.append(static_cast<uint64_t>(missing - left), fill);
  return out.finish();
}

}  // namespace colibri::text::jinja

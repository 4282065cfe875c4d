// The stop matcher against a search in the whole text. Input: bytes that give the sizes of the parts, a line feed, stop
// strings separated by 0x1f, a line feed, the text.
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz.h"
#include "text/detokenizer.h"

namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto [part, rest] = colibri::fuzz::cut(text, '\x1f');
    parts.emplace_back(part);
    text = rest;
  }
  return parts;
}

size_t first_stop(std::string_view text, const std::vector<std::string>& stops) {
  size_t first = std::string_view::npos;
  for (const std::string& stop : stops)
    if (!stop.empty()) first = std::min(first, text.find(stop));
  return first;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto [sizes, rest] = colibri::fuzz::cut(colibri::fuzz::text_of(data, size), '\n');
  const auto [stop_list, text] = colibri::fuzz::cut(rest, '\n');
  const std::vector<std::string> stops = split(stop_list);
  colibri::text::StopMatcher matcher(stops);
  std::string shown;
  size_t at = 0;
  for (size_t i = 0; at < text.size(); ++i) {
    const size_t part = sizes.empty() ? 1 : 1 + static_cast<unsigned char>(sizes[i % sizes.size()]) % 16;
    matcher.push(text.substr(at, part), shown);
    at += std::min(part, text.size() - at);
  }
  matcher.finish(shown);
  const size_t stop = first_stop(text, stops);
  COLIBRI_CHECK(matcher.stopped() == (stop != std::string_view::npos));
  COLIBRI_CHECK(shown == text.substr(0, stop));
  return 0;
}

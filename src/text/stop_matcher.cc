#include <algorithm>

#include "text/detokenizer.h"

namespace colibri::text {
namespace {

constexpr size_t kTokenText = 256;  // bytes that a token may add before the held text must grow

std::vector<size_t> borders(std::string_view text) {
  std::vector<size_t> border(text.size(), 0);
  for (size_t i = 1, length = 0; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = border[length - 1];
    if (text[i] == text[length]) ++length;
    border[i] = length;
  }
  return border;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  if (longest > 0) held_.reserve(longest + kTokenText);
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    std::vector<size_t> border = borders(stop);
    stops_.push_back({std::move(stop), std::move(border), 0});
  }
}

/// One byte further: stop.matched follows. A stop string that is complete stays so; its first place is what counts.
void StopMatcher::step(Stop& stop, char c) {
  if (stop.matched == stop.text.size()) return;
  while (stop.matched > 0 && stop.text[stop.matched] != c) stop.matched = stop.border[stop.matched - 1];
  if (stop.text[stop.matched] == c) ++stop.matched;
  if (stop.matched == stop.text.size()) found_ = std::min(found_, read_ - stop.matched);
}

/// Takes the held text in front of `end`, a place in the whole text.
void StopMatcher::release(size_t end, std::string& out) {
  const size_t n = end - released_;
  out.append(held_, 0, n);
  held_.erase(0, n);
  released_ = end;
}

void StopMatcher::push(std::string_view text, std::string& out) {
  if (stopped_) return;
  if (stops_.empty()) {
    out.append(text);
    return;
  }
  size_t open = released_;  // the leftmost place where an incomplete stop string may begin
  for (const char c : text) {
    held_.push_back(c);
    ++read_;
    for (Stop& stop : stops_) step(stop, c);
    open = read_;
    for (const Stop& stop : stops_) {
      if (stop.matched < stop.text.size()) open = std::min(open, read_ - stop.matched);
    }
    if (found_ <= open) {
      stopped_ = true;
      return release(found_, out);
    }
  }
  if (!text.empty()) release(open, out);
}

void StopMatcher::finish(std::string& out) {
  if (stopped_) return;
  stopped_ = found_ != kNowhere;
  release(stopped_ ? found_ : read_, out);
}

}  // namespace colibri::text

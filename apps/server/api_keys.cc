#include "api_keys.h"

#include <algorithm>

#include "common/input.h"

namespace colibri::server {
namespace {

constexpr size_t kMaxKeyBytes = 512;
constexpr size_t kMaxKeys = 10000;

std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  return line;
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

// 0 when equal. Looks at every byte of `key` and at kMaxKeyBytes of the stored one, whatever they are.
unsigned difference(std::string_view key, const std::string& stored) {
  unsigned bits = key.size() != stored.size() ? 1 : 0;
  for (size_t i = 0; i < kMaxKeyBytes; ++i) {
    const unsigned a = i < key.size() ? static_cast<unsigned char>(key[i]) : 0;
    const unsigned b = i < stored.size() ? static_cast<unsigned char>(stored[i]) : 0;
    bits |= a ^ b;
  }
  return bits;
}

}  // namespace

common::Outcome<std::vector<ApiKey>> parse_api_keys(std::string_view text, const std::string& source) {
  std::vector<ApiKey> keys;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = next_line(text);
    if (line.empty() || line.front() == '#') continue;
    const std::string where = source + ":" + std::to_string(number);
    const size_t colon = line.find(':');
    const std::string_view key = colon == line.npos ? line : line.substr(colon + 1);
    std::string name = colon == line.npos ? "key-" + std::to_string(number) : std::string(line.substr(0, colon));
    if (key.size() < 8 || key.size() > kMaxKeyBytes || !is_plain(key) || !is_plain(name) || name.empty())
      return common::usage_error(
          where + ": no API key: expected KEY or NAME:KEY, a key of 8 to 512 printable characters without blanks");
    keys.push_back({std::move(name), std::string(key)});
    if (keys.size() > kMaxKeys) return common::usage_error(where + ": more than 10000 API keys");
  }
  if (keys.empty()) return common::usage_error(source + ": holds no API key; write one per line, or NAME:KEY");
  return keys;
}

std::string_view key_of(const HttpRequest& head) {
  constexpr std::string_view kBearer = "bearer ";
  std::string_view value = head.header("authorization");
  const bool bearer = value.size() > kBearer.size() &&
                      std::equal(kBearer.begin(), kBearer.end(), value.begin(),
                                 [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
  if (bearer) {
    value.remove_prefix(kBearer.size());
    return value.substr(std::min(value.find_first_not_of(' '), value.size()));
  }
  value = head.header("x-api-key");
  return value.empty() ? head.header("api-key") : value;
}

common::Outcome<size_t> ApiKeys::load(const std::string& path) {
  const auto text = common::read_file(path);
  if (!text) return text.error();
  auto keys = parse_api_keys(*text, path);
  if (!keys) return keys.error();
  const std::lock_guard lock(mutex_);
  keys_ = std::make_shared<const Keys>(std::move(*keys));
  return keys_->size();
}

std::shared_ptr<const ApiKeys::Keys> ApiKeys::now() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

bool ApiKeys::empty() const { return now()->empty(); }

std::optional<std::string> ApiKeys::name_of(std::string_view key) const {
  const std::shared_ptr<const Keys> keys = now();
  const ApiKey* found = nullptr;
  for (const ApiKey& candidate : *keys) {
    if (difference(key, candidate.key) == 0 && key.size() <= kMaxKeyBytes) found = &candidate;
  }
  if (found == nullptr) return std::nullopt;
  return found->name;
}

}  // namespace colibri::server

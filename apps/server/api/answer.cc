#include "answer.h"

#include <charconv>
#include <cmath>

namespace colibri::server {
namespace {

// Length of the character that begins at `at`: 0 when the bytes are no UTF-8, beyond the end when it is cut off.
size_t character_length(std::string_view bytes, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= bytes.size()) return length;
    unsigned char low = 0x80, high = 0xbf;  // the second byte must not make it overlong, a surrogate, or too large
    if (i == 1 && first == 0xe0) low = 0xa0;
    if (i == 1 && first == 0xed) high = 0x9f;
    if (i == 1 && first == 0xf0) low = 0x90;
    if (i == 1 && first == 0xf4) high = 0x8f;
    if (byte(at + i) < low || byte(at + i) > high) return 0;
  }
  return length;
}

double per_second(double n, double seconds) { return seconds > 0 ? n / seconds : 0; }

}  // namespace

void append_delta(const Delta& delta, Choice& choice) {
  switch (delta.kind) {
    case Delta::Kind::kContent:
      choice.content += delta.text;
      return;
    case Delta::Kind::kReasoning:
      choice.reasoning += delta.text;
      return;
    case Delta::Kind::kCallBegins:
      choice.calls.push_back({delta.id, delta.name, delta.text});
      return;
    case Delta::Kind::kCallArguments:
      if (static_cast<size_t>(delta.call) < choice.calls.size())
        choice.calls[static_cast<size_t>(delta.call)].arguments += delta.text;
  }
}

json::object timings_json(const Usage& usage) {
  const auto prompt = static_cast<double>(usage.prompt_tokens - usage.cached_tokens);
  const auto predicted = static_cast<double>(usage.completion_tokens);
  const Timings& t = usage.timings;
  const double prompt_ms = t.prompt_s * 1e3, answer_ms = t.answer_s * 1e3;
  return {{"cache_n", usage.cached_tokens},
          {"prompt_n", usage.prompt_tokens - usage.cached_tokens},
          {"prompt_ms", prompt_ms},
          {"prompt_per_token_ms", prompt > 0 ? prompt_ms / prompt : 0},
          {"prompt_per_second", per_second(prompt, t.prompt_s)},
          {"predicted_n", usage.completion_tokens},
          {"predicted_ms", answer_ms},
          {"predicted_per_token_ms", predicted > 1 ? answer_ms / (predicted - 1) : 0},
          {"predicted_per_second", per_second(predicted - 1, t.answer_s)},
          {"queued_ms", t.queued_s * 1e3}};
}

bool is_utf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = character_length(bytes, i);
    if (length == 0 || i + length > bytes.size()) return false;
    i += length;
  }
  return true;
}

std::string to_utf8(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = character_length(bytes, i);
    const bool good = length > 0 && i + length <= bytes.size();
    good ? text.append(bytes.substr(i, length)) : text.append("\xef\xbf\xbd");
    i += good ? length : 1;
  }
  return text;
}

size_t open_character(std::string_view bytes) {
  for (size_t n = 1; n <= 3 && n <= bytes.size(); ++n) {
    const size_t at = bytes.size() - n;
    if ((static_cast<unsigned char>(bytes[at]) & 0xc0) == 0x80) continue;
    return character_length(bytes, at) > n ? n : 0;
  }
  return 0;
}

size_t count_characters(std::string_view utf8) {
  size_t n = 0;
  for (const char c : utf8) n += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return n;
}

json::value logprob_json(float logprob) {
  if (std::isnan(logprob)) return nullptr;
  if (std::isinf(logprob)) return -9999.0;
  // Through its shortest digits, so that the double is written with no more of them.
  char digits[32];
  const auto [end, code] = std::to_chars(digits, digits + sizeof(digits), logprob);
  double value = 0;
  std::from_chars(digits, end, value);
  return value;
}

}  // namespace colibri::server

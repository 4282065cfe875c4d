#include "text/utf8.h"

#include <cstdint>
#include <cstring>

namespace colibri::text {
namespace {

uint8_t byte_at(std::string_view bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

struct Lead {
  size_t length;  // of the whole character; 0: no character starts so
  uint8_t second_min, second_max;
};

Lead classify(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2 || lead > 0xF4) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead < 0xF0) {
    const uint8_t low = lead == 0xE0 ? 0xA0 : 0x80;   // no overlong forms
    const uint8_t high = lead == 0xED ? 0x9F : 0xBF;  // no surrogates
    return {3, low, high};
  }
  const uint8_t low = lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xF4 ? 0x8F : 0xBF;  // nothing above U+10FFFF
  return {4, low, high};
}

/// Bytes at the front that are whole, valid characters.
size_t valid_prefix(std::string_view text) {
  size_t pos = 0;
  while (true) {
    pos += ascii_prefix(text.substr(pos));
    if (pos == text.size()) return pos;
    const Utf8Step step = utf8_step(text.substr(pos));
    if (step.kind != Utf8Step::kCharacter) return pos;
    pos += step.length;
  }
}

/// Appends all that is certain, U+FFFD for invalid bytes; returns the start of an unfinished character at the end.
size_t append_repaired(std::string_view text, std::string& out) {
  size_t pos = 0;
  while (pos < text.size()) {
    const size_t valid = valid_prefix(text.substr(pos));
    out.append(text.substr(pos, valid));
    pos += valid;
    if (pos == text.size()) break;
    const Utf8Step step = utf8_step(text.substr(pos));
    if (step.kind == Utf8Step::kIncomplete) return pos;
    out.append(kReplacementCharacter);
    pos += step.length;
  }
  return pos;
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
  const Lead lead = classify(byte_at(bytes, 0));
  if (lead.length == 0) return {Utf8Step::kInvalid, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Utf8Step::kIncomplete, i};
    const uint8_t low = i == 1 ? lead.second_min : 0x80, high = i == 1 ? lead.second_max : 0xBF;
    if (byte_at(bytes, i) < low || byte_at(bytes, i) > high) return {Utf8Step::kInvalid, i};
  }
  return {Utf8Step::kCharacter, lead.length};
}

size_t ascii_prefix(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080ULL) break;
  }
  while (i < text.size() && byte_at(text, i) < 0x80) ++i;
  return i;
}

bool is_valid_utf8(std::string_view text) { return valid_prefix(text) == text.size(); }

std::string_view valid_utf8(std::string_view text, std::string& storage) {
  if (is_valid_utf8(text)) return text;
  storage.clear();
  if (append_repaired(text, storage) < text.size()) storage.append(kReplacementCharacter);
  return storage;
}

char32_t next_character(std::string_view text, size_t& pos) {
  const uint8_t lead = byte_at(text, pos++);
  if (lead < 0x80) return lead;
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t value = lead & (0x3FU >> more);
  for (int i = 0; i < more; ++i) value = value << 6 | (byte_at(text, pos++) & 0x3FU);
  return value;
}

size_t previous_start(std::string_view text, size_t pos) {
  do --pos;
  while (pos > 0 && (byte_at(text, pos) & 0xC0) == 0x80);
  return pos;
}

void append_utf8(char32_t character, std::string& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto put_rest = [&](int shift) { put(0x80 | (character >> shift & 0x3F)); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xC0 | character >> 6), put_rest(0);
  } else if (character < 0x10000) {
    put(0xE0 | character >> 12), put_rest(6), put_rest(0);
  } else {
    put(0xF0 | character >> 18), put_rest(12), put_rest(6), put_rest(0);
  }
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  if (pending_.empty()) {
    pending_.assign(bytes.substr(append_repaired(bytes, out)));
    return;
  }
  pending_.append(bytes);
  pending_.erase(0, append_repaired(pending_, out));
}

void Utf8Stream::finish(std::string& out) {
  if (!pending_.empty()) out.append(kReplacementCharacter);
  pending_.clear();
}

}  // namespace colibri::text

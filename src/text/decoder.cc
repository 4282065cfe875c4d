#include "text/decoder.h"

#include "text/byte_fallback.h"
#include "text/byte_level.h"
#include "text/component.h"

namespace colibri::text {
namespace {

constexpr size_t kUnfinishedCharacter = 3;  // bytes that a character may wait with for its last one

/// How many copies of `character` stand at the front, `most` at most.
size_t copies_in_front(std::string_view text, std::string_view character, size_t most) {
  size_t n = 0;
  while (n < most && text.substr(n * character.size(), character.size()) == character) ++n;
  return n;
}

size_t copies_at_end(std::string_view text, std::string_view character, size_t most) {
  size_t n = 0;
  while (n < most && text.size() >= (n + 1) * character.size() &&
         text.substr(text.size() - (n + 1) * character.size(), character.size()) == character) {
    ++n;
  }
  return n;
}

Result<size_t> count_member(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  if (value && value->is_int() && value->as_int() >= 0) return static_cast<size_t>(value->as_int());
  return Error{ErrorCode::kInvalidModel, "decoder Strip lacks the count " + std::string(key)};
}

bool is_one_character(const std::string* text) {
  size_t end = 0;
  if (!text || text->empty()) return false;
  next_character(*text, end);
  return end == text->size();
}

}  // namespace

Result<Decoder::Stage> Decoder::parse_stage(const Json& json) {
  const std::string type = component_type(json);
  Stage stage;
  if (type == "ByteLevel") {
    stage.kind = Kind::kByteLevel;
  } else if (type == "ByteFallback") {
    stage.kind = Kind::kByteFallback;
  } else if (type == "Fuse") {
    stage.kind = Kind::kFuse;
  } else if (type == "Replace") {
    stage.kind = Kind::kReplace;
    const Json* pattern = json.find("pattern");
    COLIBRI_ASSIGN(stage.pattern, Pattern::parse(pattern ? *pattern : Json()));
    COLIBRI_ASSIGN(stage.content, string_member(json, "content"));
  } else if (type == "Strip") {
    stage.kind = Kind::kStrip;
    COLIBRI_ASSIGN(stage.content, character_member(json, "content"));
    COLIBRI_ASSIGN(stage.left, count_member(json, "start"));
    COLIBRI_ASSIGN(stage.right, count_member(json, "stop"));
  } else if (type == "Metaspace") {
    stage.kind = Kind::kMetaspace;
    COLIBRI_ASSIGN(stage.content, character_member(json, "replacement"));
    COLIBRI_ASSIGN(const PrependScheme scheme, prepend_scheme(json));
    stage.drop_first = scheme != PrependScheme::kNever;
    stage.pattern = Pattern::literal(stage.content);
  } else {
    return unsupported_component("decoder", json);
  }
  return stage;
}

Result<Decoder> Decoder::parse(const Json* json) {
  COLIBRI_ASSIGN(const auto parts, flatten(json, "decoders"));
  Decoder decoder;
  bool fused = false;
  for (const Json* part : parts) {
    COLIBRI_ASSIGN(Stage stage, parse_stage(*part));
    stage.fused = fused;
    const bool streams = stage.kind == Kind::kStrip || stage.kind == Kind::kFuse ||
                         (stage.kind == Kind::kReplace && is_one_character(stage.pattern.as_literal()));
    if (fused && !streams) return Error{ErrorCode::kUnsupported, "decoder " + component_type(*part) + " on fused text"};
    fused = fused || stage.kind == Kind::kByteLevel || stage.kind == Kind::kFuse;
    decoder.stages_.push_back(std::move(stage));
  }
  if (!json || json->is_null()) decoder.stages_.emplace_back();
  return decoder;
}

Decoder Decoder::byte_level() {
  Decoder decoder;
  decoder.stages_.emplace_back().kind = Kind::kByteLevel;
  return decoder;
}

// What stages do to one token whatever stands around it. On fused text only replacements of single characters do that.
bool Decoder::append_bytes(std::string_view spelling, std::string& out) const {
  std::string bytes(spelling), letters;
  RegexWorkspace workspace;
  for (const Stage& stage : stages_) {
    if (stage.kind == Kind::kJoin) return false;
    if (stage.kind == Kind::kByteLevel) {
      letters.swap(bytes);
      bytes.clear();
      append_letter_bytes(letters, bytes);
    } else if (stage.kind == Kind::kByteFallback) {
      if (const int byte = fallback_byte(bytes); byte >= 0) bytes.assign(1, static_cast<char>(byte));
    } else if (stage.kind == Kind::kReplace || stage.kind == Kind::kMetaspace) {
      if (!is_valid_utf8(bytes)) continue;
      stage.pattern.replace(bytes, stage.kind == Kind::kReplace ? stage.content : " ", workspace);
    } else if (stage.kind == Kind::kStrip && !stage.fused) {
      bytes.erase(0, copies_in_front(bytes, stage.content, stage.left) * stage.content.size());
      bytes.resize(bytes.size() - copies_at_end(bytes, stage.content, stage.right) * stage.content.size());
    }
  }
  out += bytes;
  return true;
}

DecodeStream::DecodeStream(const Decoder& decoder, size_t longest)
    : decoder_(&decoder), states_(decoder.stages_.size()) {
  for (State& state : states_) {
    state.bytes.reserve(longest);
    state.text.reserve(longest + kUnfinishedCharacter);
  }
}

void DecodeStream::push(std::string_view spelling, std::string& out) { feed(0, spelling, out); }

void DecodeStream::feed(size_t stage, std::string_view token, std::string& out) {
  using Kind = Decoder::Kind;
  if (stage == states_.size()) {
    out.append(token);
    return;
  }
  const Decoder::Stage& what = decoder_->stages_[stage];
  State& state = states_[stage];
  switch (what.kind) {
    case Kind::kFuse:
      return feed(stage + 1, token, out);
    case Kind::kByteLevel:
      return feed_bytes(stage, token, out);
    case Kind::kByteFallback:
      return feed_fallback(stage, token, out);
    case Kind::kMetaspace:
      return feed_metaspace(stage, token, out);
    case Kind::kJoin:
      if (state.started) out.push_back(' ');
      state.started = true;
      return feed(stage + 1, token, out);
    case Kind::kReplace:
      return feed(stage + 1, replaced(stage, token, what.content), out);
    case Kind::kStrip: {
      if (what.fused) return feed_strip_part(stage, token, out);
      token.remove_prefix(copies_in_front(token, what.content, what.left) * what.content.size());
      token.remove_suffix(copies_at_end(token, what.content, what.right) * what.content.size());
      return feed(stage + 1, token, out);
    }
  }
}

void DecodeStream::feed_bytes(size_t stage, std::string_view token, std::string& out) {
  State& state = states_[stage];
  state.bytes.clear();
  state.text.clear();
  append_letter_bytes(token, state.bytes);
  state.utf8.push(state.bytes, state.text);
  feed(stage + 1, state.text, out);
}

void DecodeStream::feed_fallback(size_t stage, std::string_view token, std::string& out) {
  const int byte = fallback_byte(token);
  if (byte >= 0) {
    states_[stage].bytes.push_back(static_cast<char>(byte));
    return;
  }
  flush_fallback(stage, out);
  feed(stage + 1, token, out);
}

void DecodeStream::flush_fallback(size_t stage, std::string& out) {
  std::string& bytes = states_[stage].text;
  bytes.swap(states_[stage].bytes);
  states_[stage].bytes.clear();
  if (bytes.empty()) return;
  if (is_valid_utf8(bytes)) return feed(stage + 1, bytes, out);
  for (size_t i = 0; i < bytes.size(); ++i) feed(stage + 1, kReplacementCharacter, out);
}

void DecodeStream::feed_metaspace(size_t stage, std::string_view token, std::string& out) {
  const Decoder::Stage& what = decoder_->stages_[stage];
  const bool drop = what.drop_first && !states_[stage].started;
  states_[stage].started = true;
  feed(stage + 1, replaced(stage, token, drop ? "" : " "), out);
}

// The token with `content` in place of each match of the stage's pattern.
std::string& DecodeStream::replaced(size_t stage, std::string_view token, std::string_view content) {
  std::string& text = states_[stage].text;
  text.clear();
  size_t done = 0;
  decoder_->stages_[stage].pattern.for_each_match(token, workspace_, [&](size_t begin, size_t end) {
    text.append(token.substr(done, begin - done)).append(content);
    done = end;
  });
  return text.append(token.substr(done));
}

void DecodeStream::feed_strip_part(size_t stage, std::string_view part, std::string& out) {
  const Decoder::Stage& what = decoder_->stages_[stage];
  State& state = states_[stage];
  const std::string& character = what.content;
  if (!state.started) {
    const size_t n = copies_in_front(part, character, what.left - state.stripped);
    state.stripped += n;
    part.remove_prefix(n * character.size());
    state.started = state.stripped == what.left || !part.empty();
  }
  const size_t n = copies_at_end(part, character, what.right);
  std::string& text = state.text;
  text.clear();
  if (n * character.size() < part.size()) {  // something stays: what was held does too
    for (; state.held > 0; --state.held) text += character;
    text += part.substr(0, part.size() - n * character.size());
  }
  for (state.held += n; state.held > what.right; --state.held) text += character;
  if (!text.empty()) feed(stage + 1, text, out);
}

void DecodeStream::finish(std::string& out) {
  for (size_t stage = 0; stage < states_.size(); ++stage) {
    if (decoder_->stages_[stage].kind == Decoder::Kind::kByteFallback) flush_fallback(stage, out);
    if (decoder_->stages_[stage].kind == Decoder::Kind::kByteLevel) {
      std::string text;
      states_[stage].utf8.finish(text);
      feed(stage + 1, text, out);
    }
  }
}

}  // namespace colibri::text

#include "text/answers/pattern.h"

#include <algorithm>

#include "base/json.h"
#include "text/answers/json_scanner.h"

namespace colibri::text {
namespace {

// What is read before a call is certain is held back and read again with every piece of text, so it is bounded.
constexpr size_t kMaxText = size_t{16} << 10;
constexpr size_t kMaxName = 256;

bool is_name_byte(char c) {
  return static_cast<unsigned char>(c) > ' ' && std::string_view("<>{}[]()\"'=,|\\").find(c) == std::string_view::npos;
}
bool is_key_byte(char c) {
  return static_cast<unsigned char>(c) >= ' ' && std::string_view("<>\"").find(c) == std::string_view::npos;
}

class Reader {
 public:
  Reader(std::string_view text, Match& match) : text_(text), match_(match) {}

  Match::State pattern(std::string_view pattern) {
    size_t looked = std::string_view::npos;
    for (size_t i = 0; i < pattern.size(); ++i) {
      Match::State state = Match::kYes;
      if (pattern[i] == '$' && pattern[i + 1] == '!') {
        looked = pos_;
        ++i;
      } else if (pattern[i] == '$') {
        state = part(pattern[++i]);
      } else {
        state = is_blank(pattern[i]) ? blanks() : literal(pattern[i]);
      }
      if (state != Match::kYes) return state;
    }
    match_.size = std::min(looked, pos_);
    return Match::kYes;
  }

 private:
  Match::State part(char kind) {
    switch (kind) {
      case '~':
        return blanks();
      case 'N':
        return run(match_.name, is_name_byte);
      case 'I':
        return run(match_.id, is_name_byte);
      case '#': {
        std::string number;
        return run(number, is_name_byte);
      }
      case 'K':
        return run(match_.key, is_key_byte);
      case 'T':
        return run(match_.type, is_name_byte);
      case 'F':
        return function();
      case 'J':
        return object();
      default:
        return rest_of_object();
    }
  }

  Match::State blanks() {
    pos_ += blanks_at_front(text_.substr(pos_));
    return pos_ < text_.size() ? Match::kYes : Match::kPartial;
  }

  Match::State literal(char c) {
    if (pos_ == text_.size()) return Match::kPartial;
    return text_[pos_] == c ? (++pos_, Match::kYes) : Match::kNo;
  }

  Match::State run(std::string& out, bool (*belongs)(char)) {
    const size_t start = pos_;
    while (pos_ < text_.size() && belongs(text_[pos_]) && pos_ - start <= kMaxName) ++pos_;
    if (pos_ - start > kMaxName) return Match::kNo;
    if (pos_ == text_.size()) return Match::kPartial;
    out = text_.substr(start, pos_ - start);
    return out.empty() ? Match::kNo : Match::kYes;
  }

  Match::State function() {
    const Match::State state = run(match_.id, is_name_byte);
    if (state != Match::kYes) return state;
    std::string_view name = match_.id;
    if (name.starts_with("functions.")) name.remove_prefix(10);
    name = name.substr(0, name.rfind(':'));
    match_.name = name;
    return name.empty() ? Match::kNo : Match::kYes;
  }

  Match::State value(std::string_view& out) {
    const JsonExtent extent = json_extent(text_.substr(pos_));
    if (extent.state == JsonExtent::kNo) return Match::kNo;
    if (extent.state == JsonExtent::kPartial) return Match::kPartial;
    out = text_.substr(pos_, extent.size);
    pos_ += extent.size;
    return Match::kYes;
  }

  Match::State string(std::string& out) {
    if (pos_ == text_.size()) return Match::kPartial;
    if (text_[pos_] != '"') return Match::kNo;
    std::string_view quoted;
    const Match::State state = value(quoted);
    if (state != Match::kYes) return state;
    const Result<Json> parsed = parse_json(quoted);
    if (!parsed.ok()) return Match::kNo;
    out = parsed->as_string();
    return Match::kYes;
  }

  Match::State key(std::string& out) {
    Match::State state = blanks();
    if (state == Match::kYes) state = string(out);
    if (state == Match::kYes) state = blanks();
    if (state == Match::kYes) state = literal(':');
    return state == Match::kYes ? blanks() : state;
  }

  // A member of the call's object; `at_arguments` when its value is left for the caller.
  Match::State member(bool& at_arguments) {
    std::string name;
    const Match::State state = key(name);
    if (state != Match::kYes) return state;
    if (name == "name" || name == "tool_name") return string(match_.name);
    if (name == "id" && text_[pos_] == '"') return string(match_.id);
    std::string_view skipped;
    if (name != "arguments" && name != "parameters") return value(skipped);
    if (text_[pos_] != '{') return Match::kNo;
    at_arguments = !match_.name.empty();
    if (at_arguments) return Match::kYes;
    const Match::State taken = value(skipped);
    match_.arguments = skipped;
    return taken;
  }

  Match::State object() {
    Match::State state = blanks();
    if (state == Match::kYes) state = literal('{');
    while (state == Match::kYes) {
      bool at_arguments = false;
      state = member(at_arguments);
      if (at_arguments || state != Match::kYes) return state;
      if (!match_.name.empty() && !match_.arguments.empty()) return Match::kYes;
      state = blanks();
      if (state == Match::kYes && text_[pos_] == '}') {
        match_.arguments = "{}";
        return match_.name.empty() ? Match::kNo : Match::kYes;
      }
      if (state == Match::kYes) state = literal(',');
    }
    return state;
  }

  Match::State rest_of_object() {
    Match::State state = blanks();
    while (state == Match::kYes && text_[pos_] == ',') {
      ++pos_;
      std::string name;
      std::string_view skipped;
      state = key(name);
      if (state == Match::kYes) state = value(skipped);
      if (state == Match::kYes) state = blanks();
    }
    return state == Match::kYes ? literal('}') : state;
  }

  std::string_view text_;
  Match& match_;
  size_t pos_ = 0;
};

std::string written_part(char kind, const Written& parts) {
  switch (kind) {
    case 'N':
      return std::string(parts.name);
    case 'F':
      return "functions." + std::string(parts.name) + ":" + std::to_string(parts.index);
    case 'I':
      return "call_" + std::to_string(parts.index);
    case '#':
      return std::to_string(parts.index + 1);
    case 'K':
      return std::string(parts.key);
    case 'T':
      return std::string(parts.type);
    case 'R':
      return "}";
    default:
      return "";
  }
}

std::string written_object(const Written& parts) {
  std::string text(parts.json);
  const size_t name = text.find("%s");
  return name == std::string::npos ? text : text.replace(name, 2, json_escaped(parts.name));
}

}  // namespace

Match match(std::string_view pattern, std::string_view text) {
  Match match;
  const bool cut = text.size() > kMaxText;
  match.state = Reader(text.substr(0, kMaxText), match).pattern(pattern);
  if (cut && match.state == Match::kPartial) match.state = Match::kNo;
  return match;
}

std::string write(std::string_view pattern, const Written& parts) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '$') {
      out += pattern[i];
    } else if (pattern[++i] == '!') {
      break;
    } else {
      out += pattern[i] == 'J' ? written_object(parts) : written_part(pattern[i], parts);
    }
  }
  return out;
}

std::string_view literal_of(std::string_view pattern) {
  const size_t end =
      std::find_if(pattern.begin(), pattern.end(), [](char c) { return c == '$' || is_blank(c); }) - pattern.begin();
  return end == 0 && pattern.starts_with("$J") ? "{" : pattern.substr(0, end);
}

size_t beginning_at_end(std::string_view text, std::string_view literal) {
  size_t length = std::min(text.size(), literal.empty() ? 0 : literal.size() - 1);
  while (length > 0 && text.substr(text.size() - length) != literal.substr(0, length)) --length;
  return length;
}

std::string_view next_part(std::string_view& list) {
  const size_t end = list.find("$;");
  const std::string_view part = list.substr(0, end);
  list.remove_prefix(end == std::string_view::npos ? list.size() : end + 2);
  return part;
}

}  // namespace colibri::text

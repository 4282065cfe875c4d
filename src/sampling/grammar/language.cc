#include "sampling/grammar/language.h"

#include <array>
#include <map>
#include <string>

#include "sampling/grammar/json_rules.h"
#include "sampling/grammar/schema.h"
#include "text/utf8.h"

namespace colibri::sampling::grammar {
namespace {

constexpr int kMaxInside = 32;  // nodes inside each other

// Where in a character a text is: how many continuation bytes must come, and the range of the next one.
struct Utf8State {
  uint8_t missing = 0, low = 0x80, high = 0xBF;
  auto operator<=>(const Utf8State& other) const = default;
};

// False: no valid text goes on with this byte.
bool next_utf8(Utf8State& state, uint8_t byte) {
  if (state.missing > 0) {
    if (byte < state.low || byte > state.high) return false;
    state = {static_cast<uint8_t>(state.missing - 1)};
    return true;
  }
  if (byte < 0x80) return true;
  if (byte < 0xC2 || byte > 0xF4) return false;
  state.missing = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  if (byte == 0xE0) state.low = 0xA0;   // no overlong forms
  if (byte == 0xED) state.high = 0x9F;  // no surrogates
  if (byte == 0xF0) state.low = 0x90;
  if (byte == 0xF4) state.high = 0x8F;  // nothing above U+10FFFF
  return true;
}

// Free text up to the first occurrence of a text, or without end: the product of Knuth, Morris and Pratt's automaton
// and one that reads UTF-8.
class FreeText {
 public:
  FreeText(AutomatonBuilder& builder, std::string_view end_text) : b_(builder), until_(end_text) {
    border_.resize(until_.size() + 1);
    for (size_t i = 1, k = 0; i < until_.size(); ++i) {
      while (k > 0 && until_[i] != until_[k]) k = border_[k];
      if (until_[i] == until_[k]) ++k;
      border_[i + 1] = k;
    }
  }

  /// `marker`: a special token that ends the text as well, -1: none.
  State add(State from, TokenId marker) {
    const State end = b_.state();
    b_.empty(from, number({{}, 0}));
    while (!todo_.empty() && !b_.full()) {
      const Place place = todo_.back();
      todo_.pop_back();
      add_bytes(place, end);
      if (place.first.missing > 0) continue;
      if (marker >= 0) b_.special(states_[place], marker, end);
      if (until_.empty()) b_.empty(states_[place], end);
    }
    return end;
  }

 private:
  using Place = std::pair<Utf8State, size_t>;  // and the bytes of `until_` that the text ends with

  State number(Place place) {
    const auto [found, is_new] = states_.emplace(place, 0);
    if (is_new) {
      found->second = b_.state();
      todo_.push_back(place);
      const int except = until_.empty() ? -1 : static_cast<uint8_t>(until_[0]);
      if (place == Place() && except < 0x80) b_.mark_plain_loop(found->second, -1, except);
    }
    return found->second;
  }

  void add_bytes(const Place& place, State end) {
    const State from = states_[place];
    State last = kDead;
    unsigned begin = 0;
    for (unsigned byte = 0; byte <= 256; ++byte) {
      const State target = byte < 256 ? after(place, static_cast<uint8_t>(byte), end) : kDead;
      if (target == last && byte < 256) continue;
      if (last != kDead) b_.bytes(from, begin, byte - 1, last);
      last = target;
      begin = byte;
    }
  }

  State after(Place place, uint8_t byte, State end) {
    if (!next_utf8(place.first, byte)) return kDead;
    if (until_.empty()) return number(place);
    size_t& matched = place.second;
    while (matched > 0 && static_cast<uint8_t>(until_[matched]) != byte) matched = border_[matched];
    if (static_cast<uint8_t>(until_[matched]) == byte) ++matched;
    return matched == until_.size() ? end : number(place);
  }

  AutomatonBuilder& b_;
  std::string_view until_;
  std::vector<size_t> border_;
  std::map<Place, State> states_;
  std::vector<Place> todo_;
};

class Compiler {
 public:
  explicit Compiler(const TokenTexts& tokens) : tokens_(tokens), rules_(b_) {}

  Result<Automaton> run(const Json& document) {
    const State start = b_.state();
    COLIBRI_ASSIGN(const Part part, node(document, "", start, 0));
    b_.accept(part.end);
    return b_.build(b_.rule(start, false)).with_context("the constraint");
  }

 private:
  struct Part {
    State end;
    bool may_be_empty;
  };
  struct Kind {
    std::string_view name;
    Result<Part> (Compiler::*add)(const Json& node, const Json& value, const std::string& place, State from, int depth);
  };
  static const std::array<Kind, 10> kKinds;

  static Error error(const std::string& place, const std::string& what) {
    return {ErrorCode::kUsage, (place.empty() ? std::string("the constraint") : place) + " " + what};
  }

  Result<Part> node(const Json& json, const std::string& place, State from, int depth) {
    if (depth > kMaxInside) return error(place, "has more than " + std::to_string(kMaxInside) + " nodes in each other");
    if (b_.full()) return error(place, "makes the constraint too large");
    if (!json.is_object()) return error(place, "is no object");
    for (const Kind& kind : kKinds) {
      const Json* value = json.find(kind.name);
      if (!value) continue;
      COLIBRI_TRY(only_known(json, kind.name, place));
      const std::string inside = place.empty() ? std::string(kind.name) : place + "." + std::string(kind.name);
      return (this->*kind.add)(json, *value, inside, from, depth);
    }
    return error(place,
                 "has no member that says what it is (json, json_object, schema, literal, until, text, sequence, "
                 "choice, optional, repeat)");
  }

  static Status only_known(const Json& json, std::string_view kind, const std::string& place) {
    for (const auto& [key, value] : json.as_object()) {
      const bool of_repeat = kind == "repeat" && (key == "min" || key == "max" || key == "separator");
      if (key != kind && !of_repeat)
        return error(place, "has a member \"" + key + "\" beside \"" + std::string(kind) + "\"");
    }
    return {};
  }

  static Result<std::string_view> text_of(const Json& value, const std::string& place, bool empty_allowed) {
    if (!value.is_string()) return error(place, "is no string");
    if (value.as_string().empty() && !empty_allowed) return error(place, "is empty");
    if (!text::is_valid_utf8(value.as_string())) return error(place, "is no UTF-8");
    return std::string_view(value.as_string());
  }

  static Status must_be_true(const Json& value, const std::string& place) {
    return value.is_bool() && value.as_bool() ? Status() : error(place, "must be true");
  }

  Result<Part> json(const Json&, const Json& value, const std::string& place, State from, int) {
    COLIBRI_TRY(must_be_true(value, place));
    return Part{b_.call(from, rules_.value()), false};
  }

  Result<Part> json_object(const Json&, const Json& value, const std::string& place, State from, int) {
    COLIBRI_TRY(must_be_true(value, place));
    return Part{b_.call(from, rules_.object()), false};
  }

  Result<Part> schema(const Json&, const Json& value, const std::string& place, State from, int) {
    Result<State> end = SchemaCompiler(b_, rules_).add(value, from);
    if (!end.ok()) return std::move(end).with_context(place).error();
    return Part{*end, false};
  }

  Result<Part> literal(const Json&, const Json& value, const std::string& place, State from, int) {
    COLIBRI_ASSIGN(const std::string_view text, text_of(value, place, true));
    return Part{spelled(text, from), text.empty()};
  }

  // A special token is read as itself, never letter by letter.
  State spelled(std::string_view text, State from) {
    const TokenId token = tokens_.special(text);
    if (token < 0) return b_.text(from, text);
    const State to = b_.state();
    b_.special(from, token, to);
    return to;
  }

  Result<Part> until(const Json&, const Json& value, const std::string& place, State from, int) {
    COLIBRI_ASSIGN(const std::string_view text, text_of(value, place, false));
    return Part{FreeText(b_, text).add(from, tokens_.special(text)), false};
  }

  Result<Part> text(const Json&, const Json& value, const std::string& place, State from, int) {
    COLIBRI_TRY(must_be_true(value, place));
    return Part{FreeText(b_, "").add(from, -1), true};
  }

  Result<Part> sequence(const Json&, const Json& value, const std::string& place, State from, int depth) {
    if (!value.is_array()) return error(place, "is no list");
    Part all{from, true};
    for (size_t i = 0; i < value.as_array().size(); ++i) {
      COLIBRI_ASSIGN(const Part part, node(value.as_array()[i], at_index(place, i), all.end, depth + 1));
      all = {part.end, all.may_be_empty && part.may_be_empty};
    }
    return all;
  }

  Result<Part> choice(const Json&, const Json& value, const std::string& place, State from, int depth) {
    if (!value.is_array() || value.as_array().empty()) return error(place, "is no list, or empty");
    Part any{b_.state(), false};
    std::map<std::pair<State, char>, State> prefixes;  // literals share what they begin with
    for (size_t i = 0; i < value.as_array().size(); ++i) {
      const Json& alternative = value.as_array()[i];
      const Json* literal = alternative.find("literal");
      if (literal && alternative.as_object().size() == 1 && literal->is_string() &&
          tokens_.special(literal->as_string()) < 0 && !b_.full()) {
        COLIBRI_ASSIGN(const std::string_view text, text_of(*literal, at_index(place, i), true));
        b_.empty(shared_text(text, from, prefixes), any.end);
        any.may_be_empty = any.may_be_empty || text.empty();
        continue;
      }
      COLIBRI_ASSIGN(const Part part, node(alternative, at_index(place, i), from, depth + 1));
      b_.empty(part.end, any.end);
      any.may_be_empty = any.may_be_empty || part.may_be_empty;
    }
    return any;
  }

  State shared_text(std::string_view text, State from, std::map<std::pair<State, char>, State>& prefixes) {
    for (const char c : text) {
      const auto [found, is_new] = prefixes.emplace(std::pair(from, c), 0);
      if (is_new) found->second = b_.text(from, std::string_view(&c, 1));
      from = found->second;
    }
    return from;
  }

  Result<Part> optional(const Json&, const Json& value, const std::string& place, State from, int depth) {
    COLIBRI_ASSIGN(const Part part, node(value, place, from, depth + 1));
    const State end = b_.state();
    b_.empty(from, end);
    b_.empty(part.end, end);
    return Part{end, true};
  }

  // A rule of its own, which counts its rounds.
  Result<Part> repeat(const Json& json, const Json& value, const std::string& place, State from, int depth) {
    COLIBRI_ASSIGN(const int64_t min, count_member(json, "min", 0, place + ": min"));
    const Json* most = json.find_value("max");
    COLIBRI_ASSIGN(const int64_t max, most ? count_member(json, "max", -1, place + ": max") : Result<int64_t>(-1));
    if (max >= 0 && max < min) return error(place, "has a max below its min");
    if (min > kUnlimited) return error(place, "has too large a min");
    const Json* separator = json.find("separator");
    std::string_view between;
    if (separator) {
      COLIBRI_ASSIGN(between, text_of(*separator, place + ": separator", true));
    }
    const int32_t bounds = b_.bounds(min, max);
    const State start = b_.state(), first = b_.state(), round = b_.state(), end = b_.state();
    COLIBRI_ASSIGN(const Part part, node(value, place, round, depth + 1));
    if (part.may_be_empty) return error(place, "repeats what may be empty");
    if (min == 0) b_.empty(start, end);
    b_.count(start, bounds, first);
    b_.empty(first, round);
    const State again = b_.state();
    b_.count(part.end, bounds, again);
    b_.empty(spelled(between, again), round);
    b_.leave(part.end, bounds, end);
    b_.accept(end);
    return Part{b_.call(from, b_.rule(start, false)), min == 0 || max == 0};
  }

  static std::string at_index(const std::string& place, size_t i) { return place + "[" + std::to_string(i) + "]"; }

  const TokenTexts& tokens_;
  AutomatonBuilder b_;
  JsonRules rules_;
};

const std::array<Compiler::Kind, 10> Compiler::kKinds = {{{"json", &Compiler::json},
                                                          {"json_object", &Compiler::json_object},
                                                          {"schema", &Compiler::schema},
                                                          {"literal", &Compiler::literal},
                                                          {"until", &Compiler::until},
                                                          {"text", &Compiler::text},
                                                          {"sequence", &Compiler::sequence},
                                                          {"choice", &Compiler::choice},
                                                          {"optional", &Compiler::optional},
                                                          {"repeat", &Compiler::repeat}}};

}  // namespace

Result<Automaton> compile_document(const Json& document, const TokenTexts& tokens) {
  return Compiler(tokens).run(document);
}

}  // namespace colibri::sampling::grammar

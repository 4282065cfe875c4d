// Methods of strings that give strings, lists or numbers; the is...() ones are in methods_predicates.cc.
#include <algorithm>
#include <string>

#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/ops.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

std::string_view text_of(const Call& call) { return call.self.as_string(); }
Value same_kind(const Call& call, std::string_view text) { return Value::string(text, call.self.is_markup()); }

template <std::string (*Convert)(std::string_view)>
Result<Value> convert(Call& call) {
  return same_kind(call, call.rt.heap.copy(Convert(text_of(call))));
}

template <Side Where>
Result<Value> method_strip(Call& call) {
  if (!call.has_value(0)) return same_kind(call, strip(text_of(call), Where));
  COLIBRI_ASSIGN(const std::string_view chars, call.string(0));
  return same_kind(call, strip(text_of(call), chars, Where));
}

// A string argument that must be there.
Result<std::string_view> needle(const Call& call, size_t i) {
  if (!call.arg[i].is_string()) return unsupported(call.rt, "where a string is wanted", call.arg[i]);
  return call.arg[i].as_string();
}

template <bool FromRight>
Result<size_t> find_end(Runtime& rt, std::string_view text, std::string_view wanted) {
  if (FromRight) return find_last_text(rt, text, wanted);
  return find_text(text, wanted);
}

// --- splitting ---

// Splits at runs of blanks, from the left.
void split_blanks(std::string_view text, uint64_t limit, std::vector<std::string_view>& parts) {
  text = strip(text, Side::kLeft);
  while (!text.empty() && limit-- != 0) {
    size_t end = 0;
    for (size_t pos = 0; pos < text.size();) {
      if (is_space(next_code_point(text, pos))) break;
      end = pos;
    }
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::kLeft);
  }
  if (!text.empty()) parts.push_back(text);
}

// The same from the right; the parts come out last first.
void split_blanks_right(std::string_view text, uint64_t limit, std::vector<std::string_view>& parts) {
  text = strip(text, Side::kRight);
  while (!text.empty() && limit-- != 0) {
    size_t start = text.size();
    while (start > 0) {
      size_t pos = previous_code_point(text, start);
      const size_t previous = pos;
      if (is_space(next_code_point(text, pos))) break;
      start = previous;
    }
    parts.push_back(text.substr(start));
    text = strip(text.substr(0, start), Side::kRight);
  }
  if (!text.empty()) parts.push_back(text);
}

void split_at(std::string_view text, std::string_view separator, uint64_t limit, std::vector<std::string_view>& parts) {
  while (limit-- != 0) {
    const size_t at = find_text(text, separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
}

// REQUIRES: the caller has counted steps for what find_last_text would.
void split_at_right(std::string_view text, std::string_view separator, uint64_t limit,
                    std::vector<std::string_view>& parts) {
  while (limit-- != 0) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
}

Value list_of(Call& call, const std::vector<std::string_view>& parts) {
  ListBuilder list(call.rt.heap);
  for (const std::string_view part : parts) list.push(same_kind(call, part));
  return list.finish_list();
}

template <bool FromRight>
Result<Value> method_split(Call& call) {
  COLIBRI_ASSIGN(const int64_t given_limit, call.integer(1, -1));
  const uint64_t limit = given_limit < 0 ? UINT64_MAX : static_cast<uint64_t>(given_limit);
  COLIBRI_TRY(call.rt.step_bytes(text_of(call).size() * 4));
  std::vector<std::string_view> parts;
  if (!call.has_value(0)) {
    (FromRight ? split_blanks_right : split_blanks)(text_of(call), limit, parts);
  } else {
    COLIBRI_ASSIGN(const std::string_view separator, needle(call, 0));
    if (separator.empty()) return call.fail("empty separator");
    if (FromRight) COLIBRI_TRY(find_last_text(call.rt, text_of(call), separator));
    (FromRight ? split_at_right : split_at)(text_of(call), separator, limit, parts);
  }
  if (FromRight) std::reverse(parts.begin(), parts.end());
  return list_of(call, parts);
}

Result<Value> method_splitlines(Call& call) { return list_of(call, split_lines(text_of(call), call.truth(0, false))); }

Value three_parts(Call& call, std::string_view a, std::string_view b, std::string_view c) {
  ListBuilder parts(call.rt.heap);
  for (const std::string_view part : {a, b, c}) parts.push(same_kind(call, part));
  return parts.finish_tuple();
}

template <bool FromRight>
Result<Value> method_partition(Call& call) {
  COLIBRI_ASSIGN(const std::string_view separator, needle(call, 0));
  if (separator.empty()) return call.fail("empty separator");
  const std::string_view text = text_of(call);
  COLIBRI_ASSIGN(const size_t at, find_end<FromRight>(call.rt, text, separator));
  if (at != std::string_view::npos) {
    return three_parts(call, text.substr(0, at), separator, text.substr(at + separator.size()));
  }
  return FromRight ? three_parts(call, "", "", text) : three_parts(call, text, "", "");
}

// --- searching ---

// The part of the text that optional start and end arguments choose, and where it starts in code points.
struct Window {
  std::string_view text;
  int64_t start;
  bool is_valid;  // false: start behind the end, where not even "" is found
};

Result<Window> window(Call& call, size_t first_arg) {
  const auto size = static_cast<int64_t>(count_code_points(text_of(call)));
  COLIBRI_ASSIGN(int64_t start, call.has_value(first_arg) ? call.integer(first_arg) : Result<int64_t>(0));
  COLIBRI_ASSIGN(int64_t end, call.has_value(first_arg + 1) ? call.integer(first_arg + 1) : Result<int64_t>(size));
  if (start < 0) start = std::max<int64_t>(start + size, 0);
  if (end < 0) end = std::max<int64_t>(end + size, 0);
  end = std::min(end, size);
  if (start > end) return Window{{}, start, false};
  const std::string_view rest = text_of(call).substr(byte_offset(text_of(call), static_cast<size_t>(start)));
  return Window{rest.substr(0, byte_offset(rest, static_cast<size_t>(end - start))), start, true};
}

template <bool FromRight>
Result<int64_t> position_of(Call& call) {
  COLIBRI_ASSIGN(const std::string_view wanted, needle(call, 0));
  COLIBRI_ASSIGN(const Window in, window(call, 1));
  COLIBRI_ASSIGN(const size_t at, find_end<FromRight>(call.rt, in.text, wanted));
  if (!in.is_valid || at == std::string_view::npos) return -1;
  return in.start + static_cast<int64_t>(count_code_points(in.text.substr(0, at)));
}

template <bool FromRight, bool MustBeThere>
Result<Value> method_find(Call& call) {
  COLIBRI_ASSIGN(const int64_t at, position_of<FromRight>(call));
  if (MustBeThere && at < 0) return call.fail("substring not found");
  return Value::integer(at);
}

Result<Value> method_count(Call& call) {
  COLIBRI_ASSIGN(const std::string_view wanted, needle(call, 0));
  COLIBRI_ASSIGN(const Window in, window(call, 1));
  if (!in.is_valid) return Value::integer(0);
  if (wanted.empty()) return Value::integer(static_cast<int64_t>(count_code_points(in.text)) + 1);
  int64_t count = 0;
  size_t at = find_text(in.text, wanted);
  for (; at != std::string_view::npos; at = find_text(in.text, wanted, at + wanted.size())) ++count;
  return Value::integer(count);
}

template <bool AtStart>
Result<Value> method_affix(Call& call) {
  COLIBRI_ASSIGN(const Window in, window(call, 1));
  const auto matches = [&in](std::string_view affix) {
    return in.is_valid && (AtStart ? in.text.starts_with(affix) : in.text.ends_with(affix));
  };
  if (!call.arg[0].is(Kind::kTuple)) {
    COLIBRI_ASSIGN(const std::string_view affix, needle(call, 0));
    return Value::boolean(matches(affix));
  }
  for (const Value& affix : call.arg[0].items()) {
    if (!affix.is_string()) return unsupported(call.rt, "where a string is wanted", affix);
    if (matches(affix.as_string())) return Value::boolean(true);
  }
  return Value::boolean(false);
}

// --- changing ---

// An argument that becomes part of the result: escaped when the string is markup and it is not.
std::string_view inserted(Call& call, const Value& value) {
  return call.self.is_markup() && !value.is_markup() ? escape_html(call.rt, value.as_string()) : value.as_string();
}

Result<Value> method_replace(Call& call) {
  COLIBRI_ASSIGN(const std::string_view from, needle(call, 0));
  COLIBRI_TRY(needle(call, 1));
  COLIBRI_ASSIGN(const int64_t count, call.integer(2, -1));
  return same_kind(call, replace_text(call.rt.heap, text_of(call), from, inserted(call, call.arg[1]), count));
}

template <Justify How>
Result<Value> method_justify(Call& call) {
  COLIBRI_ASSIGN(const int64_t width, call.integer(0));
  if (!call.has(1)) return same_kind(call, justify(call.rt.heap, text_of(call), width, " ", How));
  COLIBRI_ASSIGN(const std::string_view fill, needle(call, 1));
  if (count_code_points(fill) != 1) return call.fail("the fill is one character");
  return same_kind(call, justify(call.rt.heap, text_of(call), width, inserted(call, call.arg[1]), How));
}

Result<Value> method_zfill(Call& call) {
  COLIBRI_ASSIGN(const int64_t width, call.integer(0));
  const std::string_view text = text_of(call);
  const size_t sign = text.starts_with('+') || text.starts_with('-') ? 1 : 0;
  TextBuilder out(call.rt.heap);
  out.append(text.substr(0, sign));
  out.append(justify(call.rt.heap, text.substr(sign), width - static_cast<int64_t>(sign), "0", Justify::kRight));
  return same_kind(call, out.finish());
}

Result<Value> method_removeprefix(Call& call) {
  COLIBRI_ASSIGN(const std::string_view prefix, needle(call, 0));
  return same_kind(call, text_of(call).substr(text_of(call).starts_with(prefix) ? prefix.size() : 0));
}

Result<Value> method_removesuffix(Call& call) {
  COLIBRI_ASSIGN(const std::string_view suffix, needle(call, 0));
  const std::string_view text = text_of(call);
  return same_kind(call, text.substr(0, text.size() - (text.ends_with(suffix) ? suffix.size() : 0)));
}

Result<Value> method_expandtabs(Call& call) {
  COLIBRI_ASSIGN(const int64_t size, call.integer(0, 8));
  TextBuilder out(call.rt.heap);
  int64_t column = 0;
  const std::string_view text = text_of(call);
  for (size_t pos = 0; pos < text.size();) {
    const size_t here = pos;
    const char32_t c = next_code_point(text, pos);
    if (c == '\t') {
      const int64_t blanks = size > 0 ? size - column % size : 0;
      if (blanks > 0) out.append(static_cast<uint64_t>(blanks), " ");
      column += blanks;
    } else {
      out.append(text.substr(here, pos - here));
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return same_kind(call, out.finish());
}

Result<Value> method_join(Call& call) {
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.arg[0]));
  TextBuilder out(call.rt.heap);
  for (uint32_t i = 0; i < items->size; ++i) {
    Value item = items->items[i];
    if (call.self.is_markup() && !item.is_string()) {
      COLIBRI_ASSIGN(const std::string_view text, to_str(call.rt, item));
      item = Value::string(text);
    }
    if (!item.is_string()) return unsupported(call.rt, "in join, which wants strings", item);
    if (i > 0) out.append(text_of(call));
    out.append(inserted(call, item));
  }
  return same_kind(call, out.finish());
}

Result<Value> method_format(Call& call) { return format_braces(call.rt, call.self, call.args); }

Result<Value> method_format_map(Call& call) {
  if (!call.arg[0].is(Kind::kDict)) return unsupported(call.rt, "for format_map", call.arg[0]);
  Args args;
  for (const DictEntry& entry : std::span(call.arg[0].as_dict().entries, call.arg[0].as_dict().size)) {
    if (entry.key.is_string()) args.named.push_back({entry.key.as_string(), entry.value});
  }
  return format_braces(call.rt, call.self, args);
}

constexpr Builtin kMethods[] = {
    {"strip", method_strip<Side::kBoth>, "chars", 0},
    {"lstrip", method_strip<Side::kLeft>, "chars", 0},
    {"rstrip", method_strip<Side::kRight>, "chars", 0},
    {"split", method_split<false>, "sep maxsplit", 0},
    {"rsplit", method_split<true>, "sep maxsplit", 0},
    {"splitlines", method_splitlines, "keepends", 0},
    {"partition", method_partition<false>, "sep", 1},
    {"rpartition", method_partition<true>, "sep", 1},
    {"startswith", method_affix<true>, "prefix start end", 1},
    {"endswith", method_affix<false>, "suffix start end", 1},
    {"find", method_find<false, false>, "sub start end", 1},
    {"rfind", method_find<true, false>, "sub start end", 1},
    {"index", method_find<false, true>, "sub start end", 1},
    {"rindex", method_find<true, true>, "sub start end", 1},
    {"count", method_count, "sub start end", 1},
    {"replace", method_replace, "old new count", 2},
    {"lower", convert<to_lower>, "", 0},
    {"upper", convert<to_upper>, "", 0},
    {"title", convert<to_title>, "", 0},
    {"capitalize", convert<to_capitalized>, "", 0},
    {"swapcase", convert<to_swapped_case>, "", 0},
    {"casefold", convert<to_casefold>, "", 0},
    {"center", method_justify<Justify::kCenter>, "width fillchar", 1},
    {"ljust", method_justify<Justify::kLeft>, "width fillchar", 1},
    {"rjust", method_justify<Justify::kRight>, "width fillchar", 1},
    {"zfill", method_zfill, "width", 1},
    {"removeprefix", method_removeprefix, "prefix", 1},
    {"removesuffix", method_removesuffix, "suffix", 1},
    {"expandtabs", method_expandtabs, "tabsize", 0},
    {"join", method_join, "iterable", 1},
    {"format", method_format, "*", 0},
    {"format_map", method_format_map, "mapping", 1},
};

}  // namespace

std::span<const Builtin> string_methods() { return kMethods; }

}  // namespace colibri::text::jinja

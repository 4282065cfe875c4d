// Filters that give text.
#include <algorithm>
#include <string>

#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/json_values.h"
#include "text/jinja/ops.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

// The input as a string, markup still marked as such.
Result<Value> soft_string(Call& call) {
  if (call.self.is_string()) return call.self;
  COLIBRI_ASSIGN(const std::string_view text, to_str(call.rt, call.self));
  return Value::string(text);
}

template <std::string (*Convert)(std::string_view)>
Result<Value> filter_case(Call& call) {
  COLIBRI_ASSIGN(const Value text, soft_string(call));
  return Value::string(call.rt.heap.copy(Convert(text.as_string())), text.is_markup());
}

// Upper case for the first character behind blanks and opening brackets, lower case for all others.
std::string title_words(std::string_view text) {
  std::string out;
  size_t start = 0;
  const auto flush = [&](size_t end) {
    if (end == start) return;
    const size_t first = code_point_bytes(text[start]);
    out += to_upper(text.substr(start, first)) + to_lower(text.substr(start + first, end - start - first));
  };
  bool was_separator = false;
  for (size_t pos = 0; pos < text.size();) {
    const size_t here = pos;
    const char32_t c = next_code_point(text, pos);
    const bool is_separator = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (is_separator != was_separator) {
      flush(here);
      start = here;
    }
    was_separator = is_separator;
  }
  flush(text.size());
  return out;
}

Result<Value> filter_string(Call& call) { return soft_string(call); }

Result<Value> filter_trim(Call& call) {
  COLIBRI_ASSIGN(const Value text, soft_string(call));
  if (!call.has_value(0)) return Value::string(strip(text.as_string(), Side::kBoth), text.is_markup());
  COLIBRI_ASSIGN(const std::string_view chars, call.string(0));
  return Value::string(strip(text.as_string(), chars, Side::kBoth), text.is_markup());
}

Result<Value> filter_center(Call& call) {
  COLIBRI_ASSIGN(const Value text, soft_string(call));
  COLIBRI_ASSIGN(const int64_t width, call.integer(0, 80));
  return Value::string(justify(call.rt.heap, text.as_string(), width, " ", Justify::kCenter), text.is_markup());
}

Result<Value> filter_replace(Call& call) {
  COLIBRI_ASSIGN(const std::string_view text, to_str(call.rt, call.self));
  COLIBRI_ASSIGN(const std::string_view from, to_str(call.rt, call.arg[0]));
  COLIBRI_ASSIGN(const std::string_view to, to_str(call.rt, call.arg[1]));
  COLIBRI_ASSIGN(const int64_t count, call.has_value(2) ? call.integer(2) : Result<int64_t>(-1));
  return Value::string(replace_text(call.rt.heap, text, from, to, count));
}

Result<Value> filter_safe(Call& call) {
  COLIBRI_ASSIGN(const Value text, soft_string(call));
  return Value::string(text.as_string(), true);
}

Result<Value> filter_escape(Call& call) {
  if (call.self.is_markup()) return call.self;
  COLIBRI_ASSIGN(const std::string_view text, to_str(call.rt, call.self));
  return Value::string(escape_html(call.rt, text), true);
}

Result<Value> filter_forceescape(Call& call) {
  COLIBRI_ASSIGN(const std::string_view text, to_str(call.rt, call.self));
  return Value::string(escape_html(call.rt, text), true);
}

Result<Value> filter_format(Call& call) {
  COLIBRI_ASSIGN(const Value format, soft_string(call));
  const Args& args = call.args;
  if (!args.named.empty() && !args.positional.empty()) return call.fail("both positional and named arguments");
  if (!args.named.empty()) {
    DictBuilder values(call.rt.heap);
    for (const NamedArg& arg : args.named) values.set(Value::string(arg.name), arg.value);
    return format_percent(call.rt, format, values.finish_dict());
  }
  ListBuilder values(call.rt.heap);
  for (const Value& value : args.positional) values.push(value);
  return format_percent(call.rt, format, values.finish_tuple());
}

Result<Value> filter_indent(Call& call) {
  if (!call.self.is_string()) return unsupported(call.rt, "for indent", call.self);
  std::string width = "    ";
  if (call.has(0) && call.arg[0].is_string()) {
    width = std::string(call.arg[0].as_string());
  } else if (call.has(0)) {
    COLIBRI_ASSIGN(const int64_t blanks, call.integer(0, 4));
    if (blanks > 0 && !call.rt.heap.fits(static_cast<uint64_t>(blanks))) return call.fail("the width is too large");
    width = std::string(static_cast<size_t>(std::max<int64_t>(blanks, 0)), ' ');
  }
  const bool first = call.truth(1, false), blank = call.truth(2, false);
  TextBuilder ended(call.rt.heap);  // with a newline at its end a last empty line counts as a line
  ended.append(call.self.as_string());
  ended.append("\n");
  TextBuilder out(call.rt.heap);
  bool is_first = true;
  for (const std::string_view line : split_lines(ended.text(), false)) {
    if (!is_first) out.append("\n");
    if (is_first ? first : (blank || !line.empty())) out.append(width);
    out.append(line);
    is_first = false;
  }
  return out.finish_string(call.self.is_markup());
}

Result<Value> filter_truncate(Call& call) {
  COLIBRI_ASSIGN(const int64_t length, call.integer(0, 255));
  const bool killwords = call.truth(1, false);
  COLIBRI_ASSIGN(const std::string_view end, call.string(2, "..."));
  COLIBRI_ASSIGN(const int64_t leeway, call.has_value(3) ? call.integer(3) : Result<int64_t>(5));
  const auto end_size = static_cast<int64_t>(count_code_points(end));
  if (length < end_size || leeway < 0) return call.fail("the length is smaller than the end, or the leeway negative");
  COLIBRI_ASSIGN(const int64_t size, jinja::length(call.rt, call.self));
  if (size - leeway <= length) return call.self;
  if (!call.self.is_string()) return unsupported(call.rt, "for truncate", call.self);
  const std::string_view text = call.self.as_string();
  std::string_view kept = text.substr(0, byte_offset(text, static_cast<size_t>(length - end_size)));
  if (!killwords) kept = kept.substr(0, kept.rfind(' '));
  TextBuilder out(call.rt.heap);
  out.append(kept);
  out.append(call.self.is_markup() ? escape_html(call.rt, end) : end);
  return out.finish_string(call.self.is_markup());
}

Result<Value> filter_wordcount(Call& call) {
  COLIBRI_ASSIGN(const Value text, soft_string(call));
  int64_t words = 0;
  bool in_word = false;
  for (size_t pos = 0; pos < text.as_string().size();) {
    const char32_t c = next_code_point(text.as_string(), pos);
    const bool is_word = c == '_' || is_alpha(c) || is_numeric(c);
    words += is_word && !in_word ? 1 : 0;
    in_word = is_word;
  }
  return Value::integer(words);
}

void append_url_quoted(TextBuilder& out, std::string_view text, bool for_query) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (kPlain.find(c) != std::string_view::npos || (c == '/' && !for_query)) {
      out.append({&c, 1});
    } else if (c == ' ' && for_query) {
      out.append("+");
    } else {
      const char escape[] = {'%', kDigits[byte >> 4], kDigits[byte & 15]};
      out.append({escape, sizeof(escape)});
    }
  }
}

// Text is quoted for a path; a dict or list of pairs becomes a query string.
Result<Value> filter_urlencode(Call& call) {
  TextBuilder out(call.rt.heap);
  if (call.self.is_string() || !is_iterable(call.self)) {
    COLIBRI_ASSIGN(const std::string_view text, to_str(call.rt, call.self));
    append_url_quoted(out, text, false);
    return out.finish_string();
  }
  Value pairs = call.self;
  if (pairs.is(Kind::kDict)) {
    pairs = Value::dict_view(call.rt.heap.make<DictView>(&pairs.as_dict(), DictView::Part::kItems));
  }
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, pairs));
  for (uint32_t i = 0; i < items->size; ++i) {
    COLIBRI_ASSIGN(const List* pair, items_of(call.rt, items->items[i]));
    if (pair->size != 2) return call.fail("pairs of a name and a value are wanted");
    if (i > 0) out.append("&");
    for (int part = 0; part < 2; ++part) {
      COLIBRI_ASSIGN(const std::string_view text, to_str(call.rt, pair->items[part]));
      if (part == 1) out.append("=");
      append_url_quoted(out, text, true);
    }
  }
  return out.finish_string();
}

// Removes what stands between `open` and `close`, which may be missing at the end.
std::string without_spans(std::string_view text, std::string_view open, std::string_view close) {
  std::string out;
  while (true) {
    const size_t start = text.find(open);
    const size_t end = start == std::string_view::npos ? start : text.find(close, start);
    out.append(text.substr(0, end == std::string_view::npos ? end : start));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + close.size());
  }
}

// The entities that escape_html writes; others stay as they are.
std::string_view unescape_html(Heap& heap, std::string_view text) {
  constexpr std::string_view kEntities[] = {"&lt;", "&gt;", "&#39;", "&#34;", "&quot;", "&amp;"};
  constexpr std::string_view kCharacters[] = {"<", ">", "'", "\"", "\"", "&"};
  for (size_t i = 0; i < std::size(kEntities); ++i) text = replace_text(heap, text, kEntities[i], kCharacters[i], -1);
  return text;
}

Result<Value> filter_striptags(Call& call) {
  COLIBRI_ASSIGN(const std::string_view text, to_str(call.rt, call.self));
  const std::string plain = without_spans(without_spans(text, "<!--", "-->"), "<", ">");
  TextBuilder out(call.rt.heap);
  std::string_view rest = strip(plain, Side::kBoth);
  for (size_t pos = 0; pos < rest.size();) {  // every run of blanks becomes one
    const size_t here = pos;
    const bool blank = is_space(next_code_point(rest, pos));
    if (!blank) out.append(rest.substr(here, pos - here));
    if (!blank) continue;
    out.append(" ");
    rest = strip(rest.substr(pos), Side::kLeft);
    pos = 0;
  }
  return Value::string(unescape_html(call.rt.heap, out.finish()));
}

// --- JSON ---

Result<Value> filter_tojson(Call& call) {
  JsonStyle style;
  style.ensure_ascii = call.truth(0, false);
  style.sort_keys = call.truth(3, false);
  style.has_indent = call.has_value(1);
  if (style.has_indent) {
    style.item_separator = ",";
    if (call.arg[1].is_string()) {
      style.indent = call.arg[1].as_string();
    } else {
      COLIBRI_ASSIGN(const int64_t blanks, call.integer(1));
      if (blanks > UINT16_MAX) return call.fail("the indent is too large");
      TextBuilder indent(call.rt.heap);
      if (blanks > 0) indent.append(static_cast<uint64_t>(blanks), " ");
      style.indent = indent.finish();
    }
  }
  if (call.has_value(2)) {
    COLIBRI_ASSIGN(const List* pair, items_of(call.rt, call.arg[2]));
    const bool fits = pair->size == 2 && pair->items[0].is_string() && pair->items[1].is_string();
    if (!fits) return call.fail("separators are two strings");
    style.item_separator = pair->items[0].as_string();
    style.key_separator = pair->items[1].as_string();
  }
  return value_to_json(call.rt, call.self, style);
}

Result<Value> filter_from_json(Call& call) {
  if (!call.self.is_string()) return unsupported(call.rt, "as JSON text", call.self);
  auto json = parse_json(call.self.as_string());
  if (!json.ok()) return call.fail(json.error().message);
  return value_of_json(call.rt, *json, TextIs::kCopied);
}

constexpr Builtin kFilters[] = {
    {"tojson", filter_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"from_json", filter_from_json, "", 0},
    {"trim", filter_trim, "chars", 0},
    {"string", filter_string, "", 0},
    {"safe", filter_safe, "", 0},
    {"lower", filter_case<to_lower>, "", 0},
    {"upper", filter_case<to_upper>, "", 0},
    {"capitalize", filter_case<to_capitalized>, "", 0},
    {"title", filter_case<title_words>, "", 0},
    {"replace", filter_replace, "old new count", 2},
    {"indent", filter_indent, "width first blank", 0},
    {"format", filter_format, "*", 0},
    {"escape", filter_escape, "", 0},
    {"e", filter_escape, "", 0},
    {"forceescape", filter_forceescape, "", 0},
    {"center", filter_center, "width", 0},
    {"truncate", filter_truncate, "length killwords end leeway", 0},
    {"wordcount", filter_wordcount, "", 0},
    {"urlencode", filter_urlencode, "", 0},
    {"striptags", filter_striptags, "", 0},
};

}  // namespace

std::span<const Builtin> text_filters() { return kFilters; }

}  // namespace colibri::text::jinja

#include "text/jinja/format.h"

#include <charconv>
#include <cmath>

#include "text/jinja/loop.h"
#include "text/jinja/ops.h"
#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

void append_hex(std::string& out, uint32_t code, int digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (int i = digits - 1; i >= 0; --i) out.push_back(kDigits[code >> (4 * i) & 15]);
}

void append_escaped(std::string& out, char32_t c, std::string_view bytes, char quote) {
  constexpr std::string_view kSpecial = "\\\n\r\t";
  constexpr std::string_view kLetters = "\\nrt";
  const size_t special = c < 0x80 ? kSpecial.find(static_cast<char>(c)) : std::string_view::npos;
  if (special != std::string_view::npos) {
    out.push_back('\\');
    out.push_back(kLetters[special]);
  } else if (c == static_cast<char32_t>(quote)) {
    out.push_back('\\');
    out.push_back(quote);
  } else if (is_printable(c)) {
    out.append(bytes);
  } else {
    out.append(c <= 0xff ? "\\x" : c <= 0xffff ? "\\u" : "\\U");
    append_hex(out, c, c <= 0xff ? 2 : c <= 0xffff ? 4 : 8);
  }
}

// Single quotes, unless the text holds some and no double ones.
std::string string_repr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const char32_t c = next_code_point(text, pos);
    append_escaped(out, c, text.substr(start, pos - start), quote);
  }
  out.push_back(quote);
  return out;
}

class Printer {
 public:
  explicit Printer(Runtime& rt) : rt_(rt), out_(rt.heap) {}

  std::string_view finish() { return out_.finish(); }

  Status print_repr(const Value& value, int depth) {
    COLIBRI_TRY(rt_.step());
    if (depth > kMaxDataDepth) return rt_.fail({"printing data nested deeper than ", std::to_string(kMaxDataDepth)});
    switch (value.kind()) {
      case Kind::kString:
        return print_string(value);
      case Kind::kList:
        return print_items(value.items(), "[", "]", depth);
      case Kind::kTuple:
        return print_items(value.items(), "(", value.as_list().size == 1 ? ",)" : ")", depth);
      case Kind::kDict:
        return print_entries({value.as_dict().entries, value.as_dict().size}, depth);
      case Kind::kDictView:
        return print_view(value, depth);
      case Kind::kNamespace: {
        out_.append("<Namespace ");
        COLIBRI_TRY(print_entries({value.as_namespace().entries, value.as_namespace().size}, depth));
        out_.append(">");
        return {};
      }
      default:
        out_.append(simple(value));
        return {};
    }
  }

 private:
  static std::string simple(const Value& value) {
    switch (value.kind()) {
      case Kind::kUndefined:
        return "Undefined";
      case Kind::kNone:
        return "None";
      case Kind::kBool:
        return value.as_bool() ? "True" : "False";
      case Kind::kInt:
        return std::to_string(value.as_int());
      case Kind::kFloat:
        return float_repr(value.as_double());
      case Kind::kRange:
        return range_repr(value.as_range());
      case Kind::kMacro:
        return concat({"<Macro '", value.as_macro().def->name, "'>"});
      case Kind::kLoop:
        return value.as_loop().repr();
      default:
        return concat({"<", type_name(value), " object>"});
    }
  }

  static std::string range_repr(const Range& range) {
    const std::string step = range.step == 1 ? std::string() : concat({", ", std::to_string(range.step)});
    return concat({"range(", std::to_string(range.start), ", ", std::to_string(range.stop), step, ")"});
  }

  Status print_string(const Value& value) {
    COLIBRI_TRY(rt_.step_bytes(value.as_string().size()));
    const std::string repr = string_repr(value.as_string());
    out_.append(value.is_markup() ? concat({"Markup(", repr, ")"}) : repr);
    return {};
  }

  Status print_items(std::span<const Value> items, std::string_view open, std::string_view close, int depth) {
    out_.append(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(", ");
      COLIBRI_TRY(print_repr(items[i], depth + 1));
    }
    out_.append(close);
    return {};
  }

  Status print_entries(std::span<const DictEntry> entries, int depth) {
    out_.append("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(", ");
      COLIBRI_TRY(print_repr(entries[i].key, depth + 1));
      out_.append(": ");
      COLIBRI_TRY(print_repr(entries[i].value, depth + 1));
    }
    out_.append("}");
    return {};
  }

  Status print_view(const Value& value, int depth) {
    constexpr std::string_view kNames[] = {"dict_keys(", "dict_values(", "dict_items("};
    out_.append(kNames[static_cast<size_t>(value.as_dict_view().part)]);
    COLIBRI_ASSIGN(const List* items, items_of(rt_, value));
    COLIBRI_TRY(print_items({items->items, items->size}, "[", "])", depth));
    return {};
  }

  Runtime& rt_;
  TextBuilder out_;
};

}  // namespace

Result<std::string_view> to_repr(Runtime& rt, const Value& value) {
  Printer printer(rt);
  COLIBRI_TRY(printer.print_repr(value, 0));
  return printer.finish();
}

Result<std::string_view> to_str(Runtime& rt, const Value& value) {
  if (value.is_string()) return value.as_string();
  if (value.is_undefined()) return std::string_view();
  return to_repr(rt, value);
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), std::abs(value), std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  std::string digits(1, text[0]);
  if (e > 1) digits.append(text.substr(2, e - 2));
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);

  std::string out = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    const std::string magnitude = std::to_string(std::abs(exponent));
    out.append(digits, 0, 1);
    if (digits.size() > 1) out.append(".").append(digits, 1);
    return out + (exponent < 0 ? "e-" : "e+") + (magnitude.size() < 2 ? "0" : "") + magnitude;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string_view escape_html(Runtime& rt, std::string_view text) {
  constexpr std::string_view kSpecial = "&<>'\"";
  constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  TextBuilder out(rt.heap);
  while (!text.empty()) {
    const size_t plain = std::min(text.find_first_of(kSpecial), text.size());
    out.append(text.substr(0, plain));
    if (plain < text.size()) out.append(kEntities[kSpecial.find(text[plain])]);
    text.remove_prefix(std::min(plain + 1, text.size()));
  }
  return out.finish();
}

}  // namespace colibri::text::jinja

// str.format(): "{} {0} {name} {a.b[c]!r:>{width}}".
#include <charconv>

#include "text/jinja/format.h"
#include "text/jinja/ops.h"

namespace colibri::text::jinja {
namespace {

class BraceFormatter {
 public:
  BraceFormatter(Runtime& rt, bool is_markup, const Args& args) : rt_(rt), is_markup_(is_markup), args_(args) {}

  // `depth`: a format specification may itself hold fields, but only once.
  Result<std::string_view> run(std::string_view text, int depth) {
    if (depth > 2) return rt_.fail("format fields nested too deep");
    TextBuilder out(rt_.heap);
    while (!text.empty()) {
      const size_t brace = text.find_first_of("{}");
      out.append(text.substr(0, brace));
      if (brace == std::string_view::npos) break;
      const char c = text[brace];
      text.remove_prefix(brace + 1);
      if (!text.empty() && text[0] == c) {
        out.append(text.substr(0, 1));
        text.remove_prefix(1);
      } else if (c == '}') {
        return rt_.fail("a single '}' in a format string");
      } else {
        COLIBRI_ASSIGN(const std::string_view field, take_field(text));
        COLIBRI_ASSIGN(const std::string_view formatted, format_field(field, depth));
        out.append(formatted);
      }
    }
    return out.finish();
  }

 private:
  // What stands before the brace that closes the field; `text` moves behind it.
  Result<std::string_view> take_field(std::string_view& text) const {
    int open = 1;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '{') ++open;
      if (text[i] == '}' && --open == 0) {
        const std::string_view field = text.substr(0, i);
        text.remove_prefix(i + 1);
        return field;
      }
    }
    return rt_.fail("a single '{' in a format string");
  }

  Result<std::string_view> format_field(std::string_view field, int depth) {
    // A bracketed key may hold ! and :, so they are looked for behind the last name part only.
    size_t end = 0;
    while (end < field.size() && field[end] != '!' && field[end] != ':') {
      end = field[end] == '[' ? std::min(field.find(']', end), field.size() - 1) + 1 : end + 1;
    }
    std::string_view rest = field.substr(std::min(end, field.size()));
    COLIBRI_ASSIGN(Value value, look_up(field.substr(0, end)));
    char conversion = 0;
    if (rest.starts_with('!')) {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) return rt_.fail("an invalid format conversion");
      conversion = rest[1];
      rest.remove_prefix(2);
    }
    if (conversion == 's' || conversion == 'r' || conversion == 'a') {
      COLIBRI_ASSIGN(const std::string_view text, conversion == 's' ? to_str(rt_, value) : to_repr(rt_, value));
      value = Value::string(text);
    } else if (conversion != 0) {
      return rt_.fail("an unknown format conversion");
    }
    COLIBRI_ASSIGN(const std::string_view spec_text, run(rest.substr(rest.empty() ? 0 : 1), depth + 1));
    COLIBRI_ASSIGN(const std::string_view text, format_value(value, spec_text));
    return is_markup_ && !value.is_markup() ? escape_html(rt_, text) : text;
  }

  Result<std::string_view> format_value(const Value& value, std::string_view spec_text) {
    if (spec_text.empty()) return to_str(rt_, value);
    const bool formattable = value.is_string() || value.is_number();
    if (!formattable) return unsupported(rt_, "with a format specification", value);
    COLIBRI_ASSIGN(const FormatSpec spec, parse_format_spec(rt_, spec_text));
    return apply_format_spec(rt_, value, spec);
  }

  // name.attribute[key]...
  Result<Value> look_up(std::string_view path) {
    const size_t first = std::min(path.find_first_of(".["), path.size());
    COLIBRI_ASSIGN(Value value, argument(path.substr(0, first)));
    path.remove_prefix(first);
    while (!path.empty()) {
      const bool is_key = path[0] == '[';
      if (!is_key && path[0] != '.') return rt_.fail("only '.' or '[' may follow ']' in a format field");
      const size_t end = is_key ? path.find(']') : std::min(path.find_first_of(".[", 1), path.size());
      if (end == std::string_view::npos) return rt_.fail("a format field without ']'");
      const std::string_view name = path.substr(1, end - 1);
      COLIBRI_ASSIGN(value, is_key ? get_item(rt_, value, key(name)) : get_attr(rt_, value, name));
      path.remove_prefix(end + (is_key ? 1 : 0));
    }
    return value;
  }

  static Value key(std::string_view name) {
    int64_t index = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_number = error == std::errc() && end == name.data() + name.size() && name[0] != '-';
    return is_number ? Value::integer(index) : Value::string(name);
  }

  Result<Value> argument(std::string_view name) {
    const Value index = name.empty() ? Value::integer(next_++) : key(name);
    if (index.is(Kind::kInt)) {
      if (index.as_int() >= static_cast<int64_t>(args_.positional.size())) {
        return rt_.fail(
            {"a format string wants more arguments than the ", std::to_string(args_.positional.size()), " given"});
      }
      return args_.positional[static_cast<size_t>(index.as_int())];
    }
    for (const NamedArg& arg : args_.named) {
      if (arg.name == name) return arg.value;
    }
    return rt_.fail({"no value for the format field '", name, "'"});
  }

  Runtime& rt_;
  const bool is_markup_;
  const Args& args_;
  int64_t next_ = 0;
};

}  // namespace

Result<Value> format_braces(Runtime& rt, const Value& format, const Args& args) {
  BraceFormatter formatter(rt, format.is_markup(), args);
  COLIBRI_ASSIGN(const std::string_view text, formatter.run(format.as_string(), 0));
  return Value::string(text, format.is_markup());
}

}  // namespace colibri::text::jinja

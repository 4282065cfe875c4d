// printf-style formatting: "%s has %d" % (a, b), "%(name)s" % {...}.
#include <charconv>
#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/ops.h"
#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& rt, const Value& format, const Value& values)
      : rt_(rt), is_markup_(format.is_markup()), text_(format.as_string()), values_(values), out_(rt.heap) {}

  Result<Value> run() {
    while (true) {
      const size_t percent = text_.find('%');
      out_.append(text_.substr(0, percent));
      if (percent == std::string_view::npos) break;
      text_.remove_prefix(percent + 1);
      COLIBRI_TRY(convert());
    }
    const bool is_mapping = values_.is(Kind::kDict) || values_.is(Kind::kList);
    const size_t given = values_.is(Kind::kTuple) ? values_.as_list().size : 1;
    if (next_ < given && !is_mapping) return rt_.fail("not all arguments were used in string formatting");
    return out_.finish_string(is_markup_);
  }

 private:
  bool take(char c) {
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  Result<Value> next_value() {
    const size_t given = values_.is(Kind::kTuple) ? values_.as_list().size : 1;
    if (next_ >= given) return rt_.fail("not enough arguments for a format string");
    const size_t i = next_++;
    return values_.is(Kind::kTuple) ? values_.items()[i] : values_;
  }

  // The digits or the '*' of a width or precision.
  Result<int64_t> number() {
    if (take('*')) {
      COLIBRI_ASSIGN(const Value value, next_value());
      if (!value.is_integral()) return rt_.fail("'*' wants an integer");
      return value.as_int();
    }
    int64_t n = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), n);
    if (error == std::errc::result_out_of_range) return rt_.fail("a format's width is too large");
    if (error == std::errc() && text_[0] != '-') text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return n;
  }

  Status flags(FormatSpec& spec) {
    spec.align = '>';
    bool zero = false;
    for (bool more = true; more && !text_.empty();) {
      const char c = text_[0];
      if (c == '-') spec.align = '<';
      if (c == '+' || (c == ' ' && spec.sign != '+')) spec.sign = c;
      if (c == '#') spec.alternate = true;
      if (c == '0') zero = true;
      more = c == '-' || c == '+' || c == ' ' || c == '#' || c == '0';
      if (more) text_.remove_prefix(1);
    }
    zero_fill_ = zero && spec.align != '<';
    COLIBRI_ASSIGN(spec.width, number());
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -std::max<int64_t>(spec.width, -INT32_MAX);
    }
    if (take('.')) {
      COLIBRI_ASSIGN(spec.precision, number());
      spec.precision = std::max<int64_t>(spec.precision, 0);
    }
    while (take('h') || take('l') || take('L')) {
    }
    return {};
  }

  Status convert() {
    if (take('%')) {
      out_.append("%");
      return {};
    }
    Value value;
    if (take('(')) {
      const size_t end = text_.find(')');
      if (end == std::string_view::npos) return rt_.fail("an incomplete format key");
      if (!values_.is(Kind::kDict)) return rt_.fail("a format string with keys wants a dict");
      const Value* found = dict_find(values_.as_dict(), Value::string(text_.substr(0, end)));
      if (found == nullptr) return rt_.fail({"no value for the format key '", text_.substr(0, end), "'"});
      value = *found;
      text_.remove_prefix(end + 1);
    }
    FormatSpec spec;
    COLIBRI_TRY(flags(spec));
    if (text_.empty()) return rt_.fail("an incomplete format");
    spec.type = text_[0];
    text_.remove_prefix(1);
    if (value.is_missing()) {
      COLIBRI_ASSIGN(value, next_value());
    }
    return write(value, spec);
  }

  Status write(const Value& value, FormatSpec spec) {
    constexpr std::string_view kIntegerTypes = "diuoxX";
    constexpr std::string_view kFloatTypes = "eEfFgG";
    if (kIntegerTypes.find(spec.type) != std::string_view::npos) return write_integer(value, spec);
    if (kFloatTypes.find(spec.type) != std::string_view::npos) return write_float(value, spec);
    if (spec.type == 'c') return write_character(value, spec);
    if (spec.type != 's' && spec.type != 'r' && spec.type != 'a') {
      return rt_.fail({"unsupported format character '", {&spec.type, 1}, "'"});
    }
    COLIBRI_ASSIGN(std::string_view text, spec.type == 's' ? to_str(rt_, value) : to_repr(rt_, value));
    if (is_markup_ && !value.is_markup()) text = escape_html(rt_, text);
    spec.type = 's';
    return put(Value::string(text), spec);
  }

  Status write_integer(const Value& value, FormatSpec spec) {
    Value number = value;
    const bool is_decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (is_decimal) spec.type = 'd';
    if (is_decimal && value.is(Kind::kFloat)) {
      if (!(std::abs(value.as_double()) < 9.2e18)) return rt_.fail("a float that does not fit %d");
      number = Value::integer(static_cast<int64_t>(value.as_double()));
    }
    if (!number.is_integral()) return unsupported(rt_, "with an integer's format", value);
    zero_fill(spec);
    if (spec.precision > 0) {  // so many digits at least
      const int64_t sign = number.as_int() < 0 || spec.sign != '-' ? 1 : 0;
      FormatSpec digits = spec;
      digits.precision = -1;
      digits.fill = "0";
      digits.align = '=';
      digits.width = std::min<int64_t>(spec.precision, 1000) + sign;
      COLIBRI_ASSIGN(const std::string_view text, apply_format_spec(rt_, Value::integer(number.as_int()), digits));
      spec.precision = -1;
      spec.type = 's';
      if (spec.align == '=') spec.align = '>';
      return put(Value::string(text), spec);
    }
    return put(Value::integer(number.as_int()), spec);
  }

  Status write_float(const Value& value, FormatSpec spec) {
    if (!value.is_number()) return unsupported(rt_, "with a float's format", value);
    zero_fill(spec);
    return put(Value::real(value.as_double()), spec);
  }

  Status write_character(const Value& value, FormatSpec spec) {
    std::string text;
    if (value.is_string()) text = std::string(value.as_string());
    const bool is_code = value.is_integral() && value.as_int() >= 0 && value.as_int() <= 0x10ffff &&
                         (value.as_int() < 0xd800 || value.as_int() >= 0xe000);
    if (is_code) append_utf8(text, static_cast<char32_t>(value.as_int()));
    if (count_code_points(text) != 1) return rt_.fail("%c wants one character");
    spec.type = 's';
    return put(Value::string(rt_.heap.copy(text)), spec);
  }

  void zero_fill(FormatSpec& spec) const {
    if (!zero_fill_) return;
    spec.fill = "0";
    spec.align = '=';
  }

  Status put(const Value& value, const FormatSpec& spec) {
    COLIBRI_ASSIGN(const std::string_view text, apply_format_spec(rt_, value, spec));
    out_.append(text);
    return {};
  }

  Runtime& rt_;
  const bool is_markup_;
  std::string_view text_;
  const Value& values_;
  TextBuilder out_;
  size_t next_ = 0;
  bool zero_fill_ = false;
};

}  // namespace

Result<Value> format_percent(Runtime& rt, const Value& format, const Value& values) {
  COLIBRI_TRY(rt.step_bytes(format.as_string().size()));
  return PercentFormatter(rt, format, values).run();
}

}  // namespace colibri::text::jinja

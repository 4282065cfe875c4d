// Strings and numbers of a schema.
#include <cmath>

#include "sampling/grammar/pattern.h"
#include "sampling/grammar/schema.h"

namespace colibri::sampling::grammar {
namespace {

#define COLIBRI_DATE \
  "[1-9]\\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))"
#define COLIBRI_TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define COLIBRI_BYTE "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define COLIBRI_LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,20}[A-Za-z0-9])?"
#define COLIBRI_HOST COLIBRI_LABEL "(\\." COLIBRI_LABEL "){1,5}"

// Formats as patterns that every string matches which they allow; some valid strings are left out (29 February, hosts
// without a dot, shortened IPv6).
constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date", "^" COLIBRI_DATE "$"},
    {"time", "^" COLIBRI_TIME "$"},
    {"date-time", "^" COLIBRI_DATE "T" COLIBRI_TIME "$"},
    {"duration",
     "^P(\\d{1,4}W|(\\d{1,4}D|\\d{1,4}M(\\d{1,4}D)?|\\d{1,4}Y(\\d{1,4}M(\\d{1,4}D)?)?)"
     "(T(\\d{1,4}H(\\d{1,4}M(\\d{1,4}S)?)?|\\d{1,4}M(\\d{1,4}S)?|\\d{1,4}S))?"
     "|T(\\d{1,4}H(\\d{1,4}M(\\d{1,4}S)?)?|\\d{1,4}M(\\d{1,4}S)?|\\d{1,4}S))$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"ipv4", "^" COLIBRI_BYTE "(\\." COLIBRI_BYTE "){3}$"},
    {"ipv6", "^[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){7}$"},
    {"hostname", "^" COLIBRI_HOST "$"},
    {"email", "^[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,32})*@" COLIBRI_HOST "$"},
    {"uri", "^https?://" COLIBRI_HOST "(:\\d{1,4})?(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F][0-9A-F])*)*"
            "(\\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F][0-9A-F])*)?(#([A-Za-z0-9._~-])*)?$"},
};

#undef COLIBRI_DATE
#undef COLIBRI_TIME
#undef COLIBRI_BYTE
#undef COLIBRI_LABEL
#undef COLIBRI_HOST

std::string_view format_pattern(std::string_view name) {
  for (const auto& [format, pattern] : kFormats)
    if (format == name) return pattern;
  return {};
}

// Moves an end of `range`. Bounds of whole numbers are rounded inwards.
Status bound(const Json& schema, std::string_view key, bool whole, const std::string& place, NumberRange& range) {
  const Json* value = schema.find(key);
  if (!value) return {};
  if (value->is_bool()) return schema_error(place, "as true or false (draft 4) is not supported");
  if (!value->is_number() || std::isnan(value->as_double())) return schema_error(place, "is no number");
  const bool is_low = key == "minimum" || key == "exclusiveMinimum";
  bool open = key == "exclusiveMinimum" || key == "exclusiveMaximum";
  const double exact = value->as_double();
  const double rounded = is_low ? std::ceil(exact) : std::floor(exact);
  if (rounded != exact && !whole)
    return schema_error(place, "of a number that is not an integer must itself be a whole number");
  if (rounded != exact) open = false;
  const double largest = static_cast<double>(kLargestInteger);
  if (is_low ? rounded >= largest : rounded <= -largest)
    return schema_error(place, "is beyond numbers of " + std::to_string(kMaxDigits) + " digits");
  range.bounded = true;
  if (std::abs(rounded) >= largest) return {};  // further out than any number that is generated
  const int64_t end = value->is_int() ? value->as_int() : static_cast<int64_t>(rounded);
  int64_t& edge = is_low ? range.low : range.high;
  bool& edge_open = is_low ? range.above_low : range.below_high;
  const bool tighter = is_low ? end > edge : end < edge;
  edge_open = tighter ? open : edge_open || (end == edge && open);
  if (tighter) edge = end;
  return {};
}

}  // namespace

Result<State> SchemaCompiler::string(const Json& schema, const Place& place, State from) {
  COLIBRI_ASSIGN(const int64_t min, count_member(schema, "minLength", 0, place.text("minLength")));
  COLIBRI_ASSIGN(const int64_t max, count_member(schema, "maxLength", -1, place.text("maxLength")));
  if (max > kUnlimited || min > kUnlimited) return schema_error(place.text("maxLength"), "is too large");
  if (max >= 0 && max < min) return schema_error(place.text("maxLength"), "is below minLength");
  const Json* pattern = schema.find("pattern");
  const Json* format = schema.find("format");
  if (!pattern && !format) return rules_.bounded_string(from, min, max);
  const std::string_view key = pattern ? "pattern" : "format";
  if (pattern && format) return schema_error(place.text("format"), "beside pattern is not supported");
  const Json& value = pattern ? *pattern : *format;
  if (!value.is_string()) return schema_error(place.text(key), "is no string");
  const std::string_view text = pattern ? value.as_string() : format_pattern(value.as_string());
  if (text.empty() && format) return schema_error(place.text(key), "\"" + value.as_string() + "\" is not supported");
  work_ += static_cast<int64_t>(text.size()) + 10'000;  // so that the number of patterns is bounded too
  COLIBRI_ASSIGN(const CharacterAutomaton any, compile_pattern(text).with_context(place.text(key)));
  COLIBRI_ASSIGN(const CharacterAutomaton strings, with_length(any, min, max).with_context(place.text(key)));
  return add_string(b_, strings, from);
}

Result<State> SchemaCompiler::number(const Json& schema, const Place& place, State from, bool whole) {
  NumberRange range;
  for (const std::string_view key : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"})
    COLIBRI_TRY(bound(schema, key, whole, place.text(key), range));
  if (range.low > range.high) return schema_error(place.text("minimum"), "is above the maximum");
  return whole ? rules_.integer(from, range) : rules_.number(from, range);
}

}  // namespace colibri::sampling::grammar

// Filters on numbers, and conversions to them.
#include <cmath>
#include <cstdlib>

#include "text/jinja/builtins.h"
#include "text/jinja/numbers.h"
#include "text/jinja/ops.h"

namespace colibri::text::jinja {
namespace {

Result<Value> filter_abs(Call& call) {
  if (!call.self.is_number()) return unsupported(call.rt, "for its absolute value", call.self);
  if (call.self.is(Kind::kFloat)) return Value::real(std::abs(call.self.as_double()));
  if (call.self.as_int() < 0) return apply_unary(call.rt, UnaryOp::kNegate, call.self);
  return Value::integer(call.self.as_int());
}

// Truncates; nothing when there is no such int64 (Python would have a big integer, or fail on an infinity).
Value truncated(double number, const Value& otherwise) {
  const bool fits = number >= -9223372036854775808.0 && number < 9223372036854775808.0;
  return fits ? Value::integer(static_cast<int64_t>(number)) : otherwise;
}

Result<Value> filter_int(Call& call) {
  const Value fallback = call.has(0) ? call.arg[0] : Value::integer(0);
  COLIBRI_ASSIGN(const int64_t base, call.integer(1, 10));
  if (call.self.is_undefined()) return undefined_error(call.rt, call.self);
  if (call.self.is_integral()) return Value::integer(call.self.as_int());
  if (call.self.is(Kind::kFloat)) return truncated(call.self.as_double(), fallback);
  if (!call.self.is_string()) return fallback;
  if (const auto integer = parse_python_int(call.self.as_string(), base)) return Value::integer(*integer);
  const auto number = parse_python_float(call.self.as_string());
  return number ? truncated(*number, fallback) : fallback;
}

Result<Value> filter_float(Call& call) {
  const Value fallback = call.has(0) ? call.arg[0] : Value::real(0);
  if (call.self.is_undefined()) return undefined_error(call.rt, call.self);
  if (call.self.is_number()) return Value::real(call.self.as_double());
  if (!call.self.is_string()) return fallback;
  const auto number = parse_python_float(call.self.as_string());
  return number ? Value::real(*number) : fallback;
}

Result<Value> filter_round(Call& call) {
  COLIBRI_ASSIGN(const int64_t digits, call.integer(0, 0));
  COLIBRI_ASSIGN(const std::string_view method, call.string(1, "common"));
  if (!call.self.is_number()) return unsupported(call.rt, "for rounding", call.self);
  if (method == "common") {
    if (call.self.is(Kind::kFloat)) return Value::real(round_to_digits(call.self.as_double(), digits));
    const auto rounded = round_to_digits(call.self.as_int(), digits);
    if (!rounded) return call.fail("integer arithmetic beyond 64 bits");
    return Value::integer(*rounded);
  }
  if (method != "ceil" && method != "floor") return call.fail("the method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = call.self.as_double() * scale;
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  if (!std::isfinite(whole)) return call.fail("a number that cannot be rounded");
  return Value::real(whole / scale);
}

constexpr Builtin kFilters[] = {
    {"abs", filter_abs, "", 0},
    {"float", filter_float, "default", 0},
    {"int", filter_int, "default base", 0},
    {"round", filter_round, "precision method", 0},
};

}  // namespace

std::span<const Builtin> number_filters() { return kFilters; }

}  // namespace colibri::text::jinja

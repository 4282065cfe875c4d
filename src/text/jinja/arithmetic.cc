// Python's arithmetic: + - * / // % ** and the signs.
#include <cmath>
#include <string>

#include "text/jinja/format.h"
#include "text/jinja/ops.h"

namespace colibri::text::jinja {
namespace {

std::string_view symbol(BinaryOp op) {
  constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<size_t>(op)];
}

Error overflow(const Runtime& rt) { return rt.fail("integer arithmetic beyond 64 bits"); }
Error by_zero(const Runtime& rt) { return rt.fail("division by zero"); }

Result<int64_t> power(Runtime& rt, int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow(rt);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow(rt);
  }
  return result;
}

// Quotient and remainder with the remainder's sign that of the divisor.
Result<Value> divide_integers(Runtime& rt, BinaryOp op, int64_t a, int64_t b) {
  if (b == 0) return by_zero(rt);
  if (b == -1) {
    if (op == BinaryOp::kMod) return Value::integer(0);
    int64_t negated = 0;
    if (__builtin_sub_overflow(0, a, &negated)) return overflow(rt);
    return Value::integer(negated);
  }
  int64_t quotient = a / b, remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    --quotient;
    remainder += b;
  }
  return Value::integer(op == BinaryOp::kMod ? remainder : quotient);
}

Result<Value> integers(Runtime& rt, BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case BinaryOp::kAdd:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOp::kSub:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOp::kMul:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOp::kDiv:
      if (b == 0) return by_zero(rt);
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod:
      return divide_integers(rt, op, a, b);
    case BinaryOp::kPow: {
      if (b < 0 && a == 0) return by_zero(rt);
      if (b < 0) return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
      COLIBRI_ASSIGN(result, power(rt, a, b));
      break;
    }
  }
  if (overflows) return overflow(rt);
  return Value::integer(result);
}

Result<Value> divide_floats(Runtime& rt, BinaryOp op, double a, double b) {
  if (b == 0) return by_zero(rt);
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    remainder += b;
    quotient -= 1;
  }
  if (op == BinaryOp::kMod) return Value::real(remainder != 0 ? remainder : std::copysign(0.0, b));
  if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
  double whole = std::floor(quotient);
  if (quotient - whole > 0.5) whole += 1;
  return Value::real(whole);
}

Result<Value> floats(Runtime& rt, BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::real(a + b);
    case BinaryOp::kSub:
      return Value::real(a - b);
    case BinaryOp::kMul:
      return Value::real(a * b);
    case BinaryOp::kDiv:
      if (b == 0) return by_zero(rt);
      return Value::real(a / b);
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod:
      return divide_floats(rt, op, a, b);
    case BinaryOp::kPow:
      break;
  }
  if (a == 0 && b < 0) return by_zero(rt);
  if (a < 0 && std::isfinite(b) && b != std::floor(b)) return rt.fail("a root of a negative number");
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) return rt.fail("float arithmetic out of range");
  return Value::real(result);
}

// Markup escapes what plain text is added to it.
Result<Value> add_strings(Runtime& rt, const Value& a, const Value& b) {
  const bool markup = a.is_markup() || b.is_markup();
  TextBuilder text(rt.heap);
  text.append(markup && !a.is_markup() ? escape_html(rt, a.as_string()) : a.as_string());
  text.append(markup && !b.is_markup() ? escape_html(rt, b.as_string()) : b.as_string());
  return text.finish_string(markup);
}

Value add_lists(Runtime& rt, const Value& a, const Value& b) {
  ListBuilder list(rt.heap);
  for (const Value& item : a.items()) list.push(item);
  for (const Value& item : b.items()) list.push(item);
  return a.is(Kind::kList) ? list.finish_list() : list.finish_tuple();
}

Result<Value> repeat(Runtime& rt, const Value& what, int64_t count) {
  const uint64_t n = count > 0 ? static_cast<uint64_t>(count) : 0;
  if (what.is_string()) {
    TextBuilder text(rt.heap);
    if (n > 0) text.append(n, what.as_string());
    return text.finish_string(what.is_markup());
  }
  ListBuilder list(rt.heap);
  for (uint64_t i = 0; i < n && what.as_list().size > 0 && !rt.heap.exhausted(); ++i) {
    for (const Value& item : what.items()) list.push(item);
  }
  return what.is(Kind::kList) ? list.finish_list() : list.finish_tuple();
}

bool is_repeatable(const Value& value) { return value.is_string() || value.is_sequence(); }

}  // namespace

Result<Value> apply_unary(Runtime& rt, UnaryOp op, const Value& operand) {
  if (op == UnaryOp::kNot) return Value::boolean(!is_true(operand));
  if (!operand.is_number()) return unsupported(rt, "with a sign", operand);
  if (operand.is(Kind::kFloat)) return Value::real(op == UnaryOp::kNegate ? -operand.as_double() : operand.as_double());
  if (op == UnaryOp::kPlus) return Value::integer(operand.as_int());
  return integers(rt, BinaryOp::kSub, 0, operand.as_int());
}

Result<Value> apply_binary(Runtime& rt, BinaryOp op, const Value& a, const Value& b) {
  if (op == BinaryOp::kMod && a.is_string()) return format_percent(rt, a, b);
  if (a.is_integral() && b.is_integral()) return integers(rt, op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return floats(rt, op, a.as_double(), b.as_double());
  if (op == BinaryOp::kAdd && a.is_string() && b.is_string()) return add_strings(rt, a, b);
  if (op == BinaryOp::kAdd && a.is_sequence() && a.kind() == b.kind()) return add_lists(rt, a, b);
  if (op == BinaryOp::kMul && is_repeatable(a) && b.is_integral()) return repeat(rt, a, b.as_int());
  if (op == BinaryOp::kMul && is_repeatable(b) && a.is_integral()) return repeat(rt, b, a.as_int());
  if (a.is_undefined()) return undefined_error(rt, a);
  if (b.is_undefined()) return undefined_error(rt, b);
  return rt.fail({"'", symbol(op), "' is not supported between ", type_name(a), " and ", type_name(b)});
}

}  // namespace colibri::text::jinja

// The tests behind `is`.
#include <string>

#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/ops.h"
#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

template <bool (*Holds)(const Value&)>
Result<Value> check(Call& call) {
  return Value::boolean(Holds(call.self));
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is(Kind::kBool); }
bool is_boolean_true(const Value& v) { return v.is(Kind::kBool) && v.as_bool(); }
bool is_boolean_false(const Value& v) { return v.is(Kind::kBool) && !v.as_bool(); }
bool is_integer(const Value& v) { return v.is(Kind::kInt); }
bool is_float(const Value& v) { return v.is(Kind::kFloat); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is_string(); }
bool is_mapping(const Value& v) { return v.is(Kind::kDict); }
bool is_escaped(const Value& v) { return v.is_markup(); }

// Has a length and items; an undefined value pretends to.
bool is_sequence(const Value& v) {
  return v.is_string() || v.is_sequence() || v.is(Kind::kDict) || v.is(Kind::kRange) || v.is_undefined();
}

bool is_callable(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kLoop:
    case Kind::kJoiner:
      return true;
    default:
      return false;
  }
}

template <CompareOp Op>
Result<Value> test_compare(Call& call) {
  COLIBRI_ASSIGN(const bool holds, compare(call.rt, Op, call.self, call.arg[0]));
  return Value::boolean(holds);
}

Result<bool> divides(Call& call, const Value& divisor) {
  COLIBRI_ASSIGN(const Value rest, apply_binary(call.rt, BinaryOp::kMod, call.self, divisor));
  return equals(call.rt, rest, Value::integer(0));
}

Result<Value> test_divisible(Call& call) {
  COLIBRI_ASSIGN(const bool divisible, divides(call, call.arg[0]));
  return Value::boolean(divisible);
}

Result<Value> test_even(Call& call) {
  COLIBRI_ASSIGN(const bool even, divides(call, Value::integer(2)));
  return Value::boolean(even);
}

Result<Value> test_odd(Call& call) {
  COLIBRI_ASSIGN(const Value rest, apply_binary(call.rt, BinaryOp::kMod, call.self, Value::integer(2)));
  COLIBRI_ASSIGN(const bool odd, equals(call.rt, rest, Value::integer(1)));
  return Value::boolean(odd);
}

// All cased characters have the case, and there is one.
template <bool (*HasCase)(char32_t)>
Result<Value> test_case(Call& call) {
  COLIBRI_ASSIGN(const std::string_view text, to_str(call.rt, call.self));
  bool found = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (is_cased(c) && !HasCase(c)) return Value::boolean(false);
    found = found || HasCase(c);
  }
  return Value::boolean(found);
}

// Python's `is`: the same object; small values that are equal count as the same.
Result<Value> test_same_as(Call& call) {
  const Value& other = call.arg[0];
  if (call.self.kind() != other.kind()) return Value::boolean(false);
  const bool by_value = other.is_none() || other.is_number() || other.is_string();
  if (!by_value) return Value::boolean(call.self.identity() == other.identity());
  COLIBRI_ASSIGN(const bool same, equals(call.rt, call.self, other));
  return Value::boolean(same);
}

Result<Value> test_filter(Call& call) {
  return Value::boolean(call.self.is_string() && find_filter(call.self.as_string()) != nullptr);
}

Result<Value> test_test(Call& call) {
  return Value::boolean(call.self.is_string() && find_test(call.self.as_string()) != nullptr);
}

constexpr Builtin kTests[] = {
    {"defined", check<is_defined>, "", 0},
    {"undefined", check<is_undefined>, "", 0},
    {"none", check<is_none>, "", 0},
    {"string", check<is_string>, "", 0},
    {"mapping", check<is_mapping>, "", 0},
    {"iterable", check<is_iterable>, "", 0},
    {"sequence", check<is_sequence>, "", 0},
    {"boolean", check<is_boolean>, "", 0},
    {"true", check<is_boolean_true>, "", 0},
    {"false", check<is_boolean_false>, "", 0},
    {"number", check<is_number>, "", 0},
    {"integer", check<is_integer>, "", 0},
    {"float", check<is_float>, "", 0},
    {"callable", check<is_callable>, "", 0},
    {"escaped", check<is_escaped>, "", 0},
    {"in", test_compare<CompareOp::kIn>, "seq", 1},
    {"eq", test_compare<CompareOp::kEq>, "other", 1},
    {"equalto", test_compare<CompareOp::kEq>, "other", 1},
    {"==", test_compare<CompareOp::kEq>, "other", 1},
    {"ne", test_compare<CompareOp::kNe>, "other", 1},
    {"!=", test_compare<CompareOp::kNe>, "other", 1},
    {"lt", test_compare<CompareOp::kLt>, "other", 1},
    {"lessthan", test_compare<CompareOp::kLt>, "other", 1},
    {"<", test_compare<CompareOp::kLt>, "other", 1},
    {"le", test_compare<CompareOp::kLe>, "other", 1},
    {"<=", test_compare<CompareOp::kLe>, "other", 1},
    {"gt", test_compare<CompareOp::kGt>, "other", 1},
    {"greaterthan", test_compare<CompareOp::kGt>, "other", 1},
    {">", test_compare<CompareOp::kGt>, "other", 1},
    {"ge", test_compare<CompareOp::kGe>, "other", 1},
    {">=", test_compare<CompareOp::kGe>, "other", 1},
    {"odd", test_odd, "", 0},
    {"even", test_even, "", 0},
    {"divisibleby", test_divisible, "num", 1},
    {"lower", test_case<is_lower>, "", 0},
    {"upper", test_case<is_upper>, "", 0},
    {"sameas", test_same_as, "other", 1},
    {"filter", test_filter, "", 0},
    {"test", test_test, "", 0},
};

}  // namespace

const Builtin* find_test(std::string_view name) {
  for (const Builtin& test : kTests) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

}  // namespace colibri::text::jinja

#include "text/jinja/ops.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <string>

#include "text/jinja/text_ops.h"

namespace colibri::text::jinja {
namespace {

// An int64 and a double, exactly.
std::partial_ordering compare_mixed(int64_t a, double b) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= kTwoTo63) return std::partial_ordering::less;
  if (b < -kTwoTo63) return std::partial_ordering::greater;
  const double whole = std::floor(b);
  const auto floor_b = static_cast<int64_t>(whole);
  if (a != floor_b) return a < floor_b ? std::partial_ordering::less : std::partial_ordering::greater;
  return b > whole ? std::partial_ordering::less : std::partial_ordering::equivalent;
}

std::partial_ordering compare_numbers(const Value& a, const Value& b) {
  const bool a_is_float = a.is(Kind::kFloat), b_is_float = b.is(Kind::kFloat);
  if (a_is_float && b_is_float) return a.as_double() <=> b.as_double();
  if (b_is_float) return compare_mixed(a.as_int(), b.as_double());
  if (!a_is_float) return a.as_int() <=> b.as_int();
  const std::partial_ordering reversed = compare_mixed(b.as_int(), a.as_double());
  if (reversed == std::partial_ordering::less) return std::partial_ordering::greater;
  return reversed == std::partial_ordering::greater ? std::partial_ordering::less : reversed;
}

bool holds(CompareOp op, std::partial_ordering order) {
  switch (op) {
    case CompareOp::kLt:
      return std::is_lt(order);
    case CompareOp::kLe:
      return std::is_lteq(order);
    case CompareOp::kGt:
      return std::is_gt(order);
    default:
      return std::is_gteq(order);
  }
}

Result<bool> equal_items(Runtime& rt, std::span<const Value> a, std::span<const Value> b, int depth) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    COLIBRI_ASSIGN(const bool same, equals(rt, a[i], b[i], depth + 1));
    if (!same) return false;
  }
  return true;
}

Result<bool> equal_dicts(Runtime& rt, const Dict& a, const Dict& b, int depth) {
  if (a.size != b.size) return false;
  for (uint32_t i = 0; i < a.size; ++i) {
    const Value* other = dict_find(b, a.entries[i].key);
    if (other == nullptr) return false;
    COLIBRI_ASSIGN(const bool same, equals(rt, a.entries[i].value, *other, depth + 1));
    if (!same) return false;
  }
  return true;
}

bool equal_ranges(const Range& a, const Range& b) {
  if (a.count != b.count) return false;
  return a.count == 0 || (a.start == b.start && (a.count == 1 || a.step == b.step));
}

std::string_view symbol(CompareOp op) {
  constexpr std::string_view kSymbols[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[static_cast<size_t>(op)];
}

// Lists order by their first items that differ, else by length.
Result<bool> order_items(Runtime& rt, CompareOp op, std::span<const Value> a, std::span<const Value> b, int depth) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    COLIBRI_ASSIGN(const bool same, equals(rt, a[i], b[i], depth + 1));
    if (!same) return compare(rt, op, a[i], b[i], depth + 1);
  }
  return holds(op, a.size() <=> b.size());
}

Result<bool> order(Runtime& rt, CompareOp op, const Value& a, const Value& b, int depth) {
  COLIBRI_TRY(rt.step());
  if (a.is_number() && b.is_number()) return holds(op, compare_numbers(a, b));
  if (a.is_string() && b.is_string()) {
    COLIBRI_TRY(rt.step_bytes(std::min(a.as_string().size(), b.as_string().size())));
    return holds(op, a.as_string() <=> b.as_string());
  }
  if (a.is_sequence() && a.kind() == b.kind()) return order_items(rt, op, a.items(), b.items(), depth);
  if (a.is_undefined()) return undefined_error(rt, a);
  if (b.is_undefined()) return undefined_error(rt, b);
  return rt.fail({"'", symbol(op), "' is not supported between ", type_name(a), " and ", type_name(b)});
}

Result<bool> contains_item(Runtime& rt, std::span<const Value> items, const Value& wanted) {
  for (const Value& item : items) {
    COLIBRI_ASSIGN(const bool same, equals(rt, item, wanted));
    if (same) return true;
  }
  return false;
}

Result<bool> contains_key(Runtime& rt, const Dict& dict, const Value& key) {
  COLIBRI_ASSIGN(const Value* found, dict_get(rt, dict, key));
  return found != nullptr;
}

// The kinds that can be equal to each other share a rank.
int key_rank(const Value& key) { return key.is_number() ? static_cast<int>(Kind::kInt) : static_cast<int>(key.kind()); }

template <typename T>
int three_way(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

int number_order(const Value& a, const Value& b) {
  const std::partial_ordering order = compare_numbers(a, b);
  if (order == std::partial_ordering::unordered) {  // not a number: behind all others
    return three_way(std::isnan(a.as_double()), std::isnan(b.as_double()));
  }
  return std::is_lt(order) ? -1 : std::is_gt(order) ? 1 : 0;
}

int tuple_order(std::span<const Value> a, std::span<const Value> b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (const int order = dict_order(a[i], b[i]); order != 0) return order;
  }
  return three_way(a.size(), b.size());
}

// Visits at most `*left` values: tuples that hold the same tuple twice, and so on, would else take exponential time.
bool is_hashable_within(const Value& value, int depth, int* left) {
  if (value.is(Kind::kList) || value.is(Kind::kDict) || value.is(Kind::kDictView)) return false;
  if (--*left < 0 || depth > kMaxDataDepth) return false;
  if (!value.is(Kind::kTuple)) return true;
  return std::all_of(value.items().begin(), value.items().end(),
                     [&](const Value& item) { return is_hashable_within(item, depth + 1, left); });
}

}  // namespace

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_double() != 0;
    case Kind::kString:
      return !value.as_string().empty();
    case Kind::kList:
    case Kind::kTuple:
      return value.as_list().size > 0;
    case Kind::kDict:
      return value.as_dict().size > 0;
    case Kind::kDictView:
      return value.as_dict_view().dict->size > 0;
    case Kind::kRange:
      return value.as_range().count > 0;
    default:
      return true;
  }
}

Result<bool> equals(Runtime& rt, const Value& a, const Value& b, int depth) {
  COLIBRI_TRY(rt.step());
  if (depth > kMaxDataDepth) return rt.fail({"comparing data nested deeper than ", std::to_string(kMaxDataDepth)});
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == std::partial_ordering::equivalent;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      if (a.as_string().size() == b.as_string().size()) COLIBRI_TRY(rt.step_bytes(a.as_string().size()));
      return a.as_string() == b.as_string();
    case Kind::kList:
    case Kind::kTuple:
      return equal_items(rt, a.items(), b.items(), depth);
    case Kind::kDict:
      return equal_dicts(rt, a.as_dict(), b.as_dict(), depth);
    case Kind::kRange:
      return equal_ranges(a.as_range(), b.as_range());
    default:
      return a.identity() == b.identity();
  }
}

Result<bool> compare(Runtime& rt, CompareOp op, const Value& a, const Value& b, int depth) {
  if (op == CompareOp::kEq || op == CompareOp::kNe) {
    COLIBRI_ASSIGN(const bool same, equals(rt, a, b, depth));
    return same == (op == CompareOp::kEq);
  }
  if (op == CompareOp::kIn || op == CompareOp::kNotIn) {
    COLIBRI_ASSIGN(const bool found, contains(rt, b, a));
    return found == (op == CompareOp::kIn);
  }
  if (depth > kMaxDataDepth) return rt.fail({"comparing data nested deeper than ", std::to_string(kMaxDataDepth)});
  return order(rt, op, a, b, depth);
}

Result<bool> contains(Runtime& rt, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) return unsupported(rt, "in a string", item);
      COLIBRI_TRY(rt.step_bytes(container.as_string().size()));
      return find_text(container.as_string(), item.as_string()) != std::string_view::npos;
    case Kind::kDict:
      return contains_key(rt, container.as_dict(), item);
    case Kind::kDictView: {
      const DictView& view = container.as_dict_view();
      if (view.part == DictView::Part::kKeys) return contains_key(rt, *view.dict, item);
      break;
    }
    default:
      break;
  }
  COLIBRI_ASSIGN(const List* list, items_of(rt, container));
  return contains_item(rt, {list->items, list->size}, item);
}

bool is_hashable(const Value& value) {
  int left = 1000;
  return is_hashable_within(value, 0, &left);
}

int dict_order(const Value& a, const Value& b) {
  const int rank = three_way(key_rank(a), key_rank(b));
  if (rank != 0) return rank;
  if (a.is_number()) return number_order(a, b);
  if (a.is_string()) return three_way(a.as_string().compare(b.as_string()), 0);
  if (a.is(Kind::kTuple)) return tuple_order(a.items(), b.items());
  if (a.is_none() || a.is_undefined()) return 0;
  return three_way(reinterpret_cast<uintptr_t>(a.identity()), reinterpret_cast<uintptr_t>(b.identity()));
}

const Value* dict_find(const Dict& dict, const Value& key) {
  const uint32_t* end = dict.sorted + dict.size;
  const uint32_t* at = std::lower_bound(dict.sorted, end, key, [&dict](uint32_t i, const Value& wanted) {
    return dict_order(dict.entries[i].key, wanted) < 0;
  });
  if (at == end || dict_order(dict.entries[*at].key, key) != 0) return nullptr;
  return &dict.entries[*at].value;
}

Result<const Value*> dict_get(Runtime& rt, const Dict& dict, const Value& key) {
  if (!is_hashable(key)) return unsupported(rt, "as the key of a dict", key);
  if (key.is_string()) COLIBRI_TRY(rt.step_bytes(key.as_string().size()));
  return dict_find(dict, key);
}

const Value* namespace_find(const Namespace& space, std::string_view name) {
  for (uint32_t i = 0; i < space.size; ++i) {
    if (space.entries[i].key.as_string() == name) return &space.entries[i].value;
  }
  return nullptr;
}

void namespace_set(Runtime& rt, Namespace& space, std::string_view name, const Value& value) {
  if (const Value* old = namespace_find(space, name)) {
    *const_cast<Value*>(old) = value;
    return;
  }
  if (space.size == space.capacity) {
    const uint32_t capacity = std::max(8U, space.capacity * 2);
    if (!rt.heap.fits(capacity * sizeof(DictEntry))) return rt.heap.exhaust();
    auto* entries = rt.heap.make_array<DictEntry>(capacity);
    std::copy(space.entries, space.entries + space.size, entries);
    space.entries = entries;
    space.capacity = capacity;
  }
  space.entries[space.size++] = {Value::string(name), value};
}

Error undefined_error(const Runtime& rt, const Value& undefined) { return rt.fail(undefined.as_string()); }

Error unsupported(const Runtime& rt, std::string_view what, const Value& value) {
  if (value.is_undefined()) return undefined_error(rt, value);
  return rt.fail({"a value of type ", type_name(value), " cannot be used ", what});
}

}  // namespace colibri::text::jinja

// Filters on lists, dicts and other things to iterate over.
#include <algorithm>
#include <string>
#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/ops.h"
#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

Value pair_of(Heap& heap, const Value& first, const Value& second, bool is_group = false) {
  Value* items = heap.make_array<Value>(2);
  items[0] = first;
  items[1] = second;
  return Value::tuple(heap.make<List>(items, 2U, is_group));
}

Value lower_case(Runtime& rt, const Value& value) {
  if (!value.is_string()) return value;
  return Value::string(rt.heap.copy(to_lower(value.as_string())), value.is_markup());
}

// "a.b.0": the attribute a, of it b, of it item 0. No attribute: the value itself.
Result<Value> attribute_of(Runtime& rt, Value value, const Value& attribute, const Value& fallback) {
  if (attribute.is_missing() || attribute.is_none()) return value;
  if (!attribute.is_string()) return get_item(rt, value, attribute);
  std::string_view path = attribute.as_string();
  for (bool more = true; more;) {
    const size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    more = dot != std::string_view::npos;
    if (more) path.remove_prefix(dot + 1);
    const bool is_number =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    const Value key = is_number ? Value::integer(std::stoi(std::string(part))) : Value::string(part);
    COLIBRI_ASSIGN(value, get_item(rt, value, key));
    if (value.is_undefined() && !fallback.is_missing() && !fallback.is_none()) value = fallback;
  }
  return value;
}

// --- sorting ---

struct Keyed {
  Value key;
  Value value;
};

// Stable, by the keys; the first comparison that fails is the error.
Status sort_by_key(Runtime& rt, std::vector<Keyed>& items, bool reverse) {
  Status status;
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    if (!status.ok()) return false;
    const Result<bool> less = compare(rt, CompareOp::kLt, reverse ? b.key : a.key, reverse ? a.key : b.key);
    if (!less.ok()) status = less.error();
    return less.ok() && *less;
  });
  return status;
}

Result<Value> sort_key(Runtime& rt, const Value& value, const Value& attribute, bool case_sensitive,
                       const Value& fallback = {}) {
  COLIBRI_ASSIGN(const Value key, attribute_of(rt, value, attribute, fallback));
  return case_sensitive ? key : lower_case(rt, key);
}

// "a,b" sorts by a, then by b.
Result<Value> sort_keys(Runtime& rt, const Value& value, const Value& attribute, bool case_sensitive) {
  const bool several = attribute.is_string() && attribute.as_string().find(',') != std::string_view::npos;
  if (!several) return sort_key(rt, value, attribute, case_sensitive);
  ListBuilder keys(rt.heap);
  std::string_view names = attribute.as_string();
  for (bool more = true; more;) {
    const size_t comma = names.find(',');
    COLIBRI_ASSIGN(const Value key, sort_key(rt, value, Value::string(names.substr(0, comma)), case_sensitive));
    keys.push(key);
    more = comma != std::string_view::npos;
    if (more) names.remove_prefix(comma + 1);
  }
  return keys.finish_list();
}

Result<Value> filter_sort(Call& call) {
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  std::vector<Keyed> keyed;
  for (uint32_t i = 0; i < items->size; ++i) {
    COLIBRI_ASSIGN(const Value key, sort_keys(call.rt, items->items[i], call.arg[2], call.truth(1, false)));
    keyed.push_back({key, items->items[i]});
  }
  COLIBRI_TRY(sort_by_key(call.rt, keyed, call.truth(0, false)));
  ListBuilder sorted(call.rt.heap);
  for (const Keyed& item : keyed) sorted.push(item.value);
  return sorted.finish_list();
}

Result<Value> filter_dictsort(Call& call) {
  if (!call.self.is(Kind::kDict)) return unsupported(call.rt, "for dictsort", call.self);
  COLIBRI_ASSIGN(const std::string_view by, call.string(1, "key"));
  if (by != "key" && by != "value") return call.fail("sorts by \"key\" or \"value\" only");
  std::vector<Keyed> keyed;
  for (const DictEntry& entry : std::span(call.self.as_dict().entries, call.self.as_dict().size)) {
    const Value& sorted_by = by == "key" ? entry.key : entry.value;
    keyed.push_back({call.truth(0, false) ? sorted_by : lower_case(call.rt, sorted_by),
                     pair_of(call.rt.heap, entry.key, entry.value)});
  }
  COLIBRI_TRY(sort_by_key(call.rt, keyed, call.truth(2, false)));
  ListBuilder sorted(call.rt.heap);
  for (const Keyed& item : keyed) sorted.push(item.value);
  return sorted.finish_list();
}

Result<Value> filter_groupby(Call& call) {
  const bool case_sensitive = call.truth(2, false);
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  std::vector<Keyed> keyed;
  for (uint32_t i = 0; i < items->size; ++i) {
    COLIBRI_ASSIGN(const Value key, sort_key(call.rt, items->items[i], call.arg[0], case_sensitive, call.arg[1]));
    keyed.push_back({key, items->items[i]});
  }
  COLIBRI_TRY(sort_by_key(call.rt, keyed, false));
  ListBuilder groups(call.rt.heap);
  for (size_t first = 0; first < keyed.size();) {
    ListBuilder group(call.rt.heap);
    size_t next = first;
    for (bool same = true; same; same = next < keyed.size() && same) {
      group.push(keyed[next++].value);
      if (next == keyed.size()) break;
      COLIBRI_ASSIGN(same, equals(call.rt, keyed[first].key, keyed[next].key));
    }
    COLIBRI_ASSIGN(const Value name, attribute_of(call.rt, keyed[first].value, call.arg[0], call.arg[1]));
    groups.push(pair_of(call.rt.heap, name, group.finish_list(), true));
    first = next;
  }
  return groups.finish_list();
}

Result<Value> extreme(Call& call, CompareOp better) {
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  if (items->size == 0) return Value::undefined("no aggregated item, the sequence was empty");
  const bool case_sensitive = call.truth(0, false);
  Value best = items->items[0];
  COLIBRI_ASSIGN(Value best_key, sort_key(call.rt, best, call.arg[1], case_sensitive));
  for (uint32_t i = 1; i < items->size; ++i) {
    COLIBRI_ASSIGN(const Value key, sort_key(call.rt, items->items[i], call.arg[1], case_sensitive));
    COLIBRI_ASSIGN(const bool is_better, compare(call.rt, better, key, best_key));
    if (!is_better) continue;
    best = items->items[i];
    best_key = key;
  }
  return best;
}

Result<Value> filter_min(Call& call) { return extreme(call, CompareOp::kLt); }
Result<Value> filter_max(Call& call) { return extreme(call, CompareOp::kGt); }

Result<Value> filter_unique(Call& call) {
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  std::vector<std::pair<Value, uint32_t>> keyed;
  for (uint32_t i = 0; i < items->size; ++i) {
    COLIBRI_ASSIGN(const Value key, sort_key(call.rt, items->items[i], call.arg[1], call.truth(0, false)));
    if (!is_hashable(key)) return unsupported(call.rt, "for unique", key);
    if (key.is_string()) COLIBRI_TRY(call.rt.step_bytes(key.as_string().size() * 16));
    keyed.emplace_back(key, i);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return dict_order(a.first, b.first) < 0; });
  std::vector<bool> kept(items->size, false);
  for (size_t i = 0; i < keyed.size(); ++i) {
    kept[keyed[i].second] = i == 0 || dict_order(keyed[i - 1].first, keyed[i].first) != 0;
  }
  ListBuilder unique(call.rt.heap);
  for (uint32_t i = 0; i < items->size; ++i) {
    if (kept[i]) unique.push(items->items[i]);
  }
  return unique.finish_iterator();
}

// --- map, select and reject ---

Args args_behind(const Args& args, size_t skipped) {
  Args rest;
  rest.named = args.named;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(skipped), args.positional.end());
  return rest;
}

Result<Value> map_attribute(Call& call) {
  Value attribute, fallback;
  for (const NamedArg& arg : call.args.named) {
    if (arg.name != "attribute" && arg.name != "default") {
      return call.fail({"there is no argument '", arg.name, "'"});
    }
    (arg.name == "attribute" ? attribute : fallback) = arg.value;
  }
  if (attribute.is_missing()) return call.fail("a filter's name or an attribute is wanted");
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  ListBuilder mapped(call.rt.heap);
  for (uint32_t i = 0; i < items->size; ++i) {
    COLIBRI_ASSIGN(const Value value, attribute_of(call.rt, items->items[i], attribute, fallback));
    mapped.push(value);
  }
  return mapped.finish_iterator();
}

Result<Value> filter_map(Call& call) {
  if (!is_true(call.self)) return ListBuilder(call.rt.heap).finish_iterator();
  if (call.args.positional.empty()) return map_attribute(call);
  const Value& name = call.args.positional[0];
  const Builtin* filter = name.is_string() ? find_filter(name.as_string()) : nullptr;
  if (filter == nullptr) return call.fail("no filter of the name that is given");
  const Args args = args_behind(call.args, 1);
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  ListBuilder mapped(call.rt.heap);
  for (uint32_t i = 0; i < items->size; ++i) {
    COLIBRI_TRY(call.rt.step());
    COLIBRI_ASSIGN(const Value value, invoke(call.rt, *filter, items->items[i], args));
    mapped.push(value);
  }
  return mapped.finish_iterator();
}

// Keeps the items (or those whose attribute) for which the test gives `wanted`; without a test their truth counts.
Result<Value> select_items(Call& call, bool by_attribute, bool wanted) {
  if (!is_true(call.self)) return ListBuilder(call.rt.heap).finish_iterator();
  const auto& given = call.args.positional;
  const size_t test_at = by_attribute ? 1 : 0;
  if (given.size() < test_at) return call.fail("an attribute's name is wanted");
  const Builtin* test = nullptr;
  if (given.size() > test_at) {
    test = given[test_at].is_string() ? find_test(given[test_at].as_string()) : nullptr;
    if (test == nullptr) return call.fail("no test of the name that is given");
  }
  const Args args = args_behind(call.args, std::min(test_at + 1, given.size()));
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  ListBuilder kept(call.rt.heap);
  for (uint32_t i = 0; i < items->size; ++i) {
    COLIBRI_TRY(call.rt.step());
    Value subject = items->items[i];
    if (by_attribute) {
      COLIBRI_ASSIGN(subject, attribute_of(call.rt, subject, given[0], {}));
    }
    if (test != nullptr) {
      COLIBRI_ASSIGN(subject, invoke(call.rt, *test, subject, args));
    }
    if (is_true(subject) == wanted) kept.push(items->items[i]);
  }
  return kept.finish_iterator();
}

Result<Value> filter_select(Call& call) { return select_items(call, false, true); }
Result<Value> filter_reject(Call& call) { return select_items(call, false, false); }
Result<Value> filter_selectattr(Call& call) { return select_items(call, true, true); }
Result<Value> filter_rejectattr(Call& call) { return select_items(call, true, false); }

// --- others ---

Result<Value> filter_length(Call& call) {
  COLIBRI_ASSIGN(const int64_t size, length(call.rt, call.self));
  return Value::integer(size);
}

Result<Value> filter_default(Call& call) {
  const bool use_default = call.self.is_undefined() || (call.truth(1, false) && !is_true(call.self));
  if (!use_default) return call.self;
  return call.has(0) ? call.arg[0] : Value::string("");
}

Result<Value> filter_first(Call& call) {
  if (call.self.is(Kind::kIterator)) {
    Iterator& iterator = call.self.as_iterator();
    if (iterator.next < iterator.items.size) return iterator.items.items[iterator.next++];
    return Value::undefined("no first item, the sequence was empty");
  }
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  return items->size > 0 ? items->items[0] : Value::undefined("no first item, the sequence was empty");
}

Result<Value> filter_last(Call& call) {
  if (call.self.is(Kind::kIterator)) return unsupported(call.rt, "for its last item", call.self);
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  return items->size > 0 ? items->items[items->size - 1] : Value::undefined("no last item, the sequence was empty");
}

Result<Value> filter_list(Call& call) {
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  return Value::list(items);
}

Result<Value> filter_items(Call& call) {
  if (call.self.is_undefined()) return ListBuilder(call.rt.heap).finish_iterator();
  if (!call.self.is(Kind::kDict)) return call.fail({"only a mapping has items, not ", type_name(call.self)});
  ListBuilder pairs(call.rt.heap);
  for (const DictEntry& entry : std::span(call.self.as_dict().entries, call.self.as_dict().size)) {
    pairs.push(pair_of(call.rt.heap, entry.key, entry.value));
  }
  return pairs.finish_iterator();
}

Result<Value> filter_join(Call& call) {
  std::string_view separator;
  if (call.has(0)) {
    COLIBRI_ASSIGN(separator, to_str(call.rt, call.arg[0]));
  }
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  TextBuilder text(call.rt.heap);
  for (uint32_t i = 0; i < items->size; ++i) {
    COLIBRI_ASSIGN(const Value value, attribute_of(call.rt, items->items[i], call.arg[1], {}));
    COLIBRI_ASSIGN(const std::string_view piece, to_str(call.rt, value));
    if (i > 0) text.append(separator);
    text.append(piece);
  }
  return text.finish_string();
}

Result<Value> filter_reverse(Call& call) {
  if (call.self.is_string()) {
    return get_slice(call.rt, call.self, Value::none(), Value::none(), Value::integer(-1));
  }
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  ListBuilder reversed(call.rt.heap);
  for (uint32_t i = items->size; i > 0; --i) reversed.push(items->items[i - 1]);
  return call.self.is(Kind::kIterator) ? reversed.finish_list() : reversed.finish_iterator();
}

Result<Value> filter_sum(Call& call) {
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  Value sum = call.has(1) ? call.arg[1] : Value::integer(0);
  if (sum.is_string()) return call.fail("strings are joined, not summed");
  for (uint32_t i = 0; i < items->size; ++i) {
    COLIBRI_ASSIGN(const Value value, attribute_of(call.rt, items->items[i], call.arg[0], {}));
    COLIBRI_ASSIGN(sum, apply_binary(call.rt, BinaryOp::kAdd, sum, value));
  }
  return sum;
}

Result<Value> filter_batch(Call& call) {
  COLIBRI_ASSIGN(const int64_t size, call.integer(0));
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  ListBuilder batches(call.rt.heap);
  for (uint32_t next = 0; next < items->size;) {
    ListBuilder batch(call.rt.heap);
    do batch.push(items->items[next++]);
    while (next < items->size && static_cast<int64_t>(batch.size()) != size);
    while (call.has_value(1) && static_cast<int64_t>(batch.size()) < size && !call.rt.heap.exhausted()) {
      batch.push(call.arg[1]);
    }
    batches.push(batch.finish_list());
  }
  return batches.finish_iterator();
}

// `slices` columns of almost the same length.
Result<Value> filter_slice(Call& call) {
  COLIBRI_ASSIGN(const int64_t slices, call.integer(0));
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  if (slices == 0) return call.fail("into zero slices");
  const int64_t each = slices > 0 ? items->size / slices : 0, longer = slices > 0 ? items->size % slices : 0;
  ListBuilder columns(call.rt.heap);
  uint32_t next = 0;
  for (int64_t i = 0; i < slices && !call.rt.heap.exhausted(); ++i) {
    ListBuilder column(call.rt.heap);
    for (int64_t left = each + (i < longer ? 1 : 0); left > 0; --left) column.push(items->items[next++]);
    if (call.has_value(1) && i >= longer) column.push(call.arg[1]);
    columns.push(column.finish_list());
  }
  return columns.finish_iterator();
}

Result<Value> filter_attr(Call& call) {
  COLIBRI_ASSIGN(const std::string_view name, call.string(0));
  if (call.self.is(Kind::kDict) && find_method(call.self, name) == nullptr) {
    return Value::undefined("'dict object' has no such attribute");
  }
  return get_attr(call.rt, call.self, name);
}

constexpr Builtin kFilters[] = {
    {"length", filter_length, "", 0},
    {"count", filter_length, "", 0},
    {"default", filter_default, "default_value boolean", 0},
    {"d", filter_default, "default_value boolean", 0},
    {"join", filter_join, "d attribute", 0},
    {"list", filter_list, "", 0},
    {"items", filter_items, "", 0},
    {"map", filter_map, "*", 0},
    {"select", filter_select, "*", 0},
    {"reject", filter_reject, "*", 0},
    {"selectattr", filter_selectattr, "*", 0},
    {"rejectattr", filter_rejectattr, "*", 0},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0},
    {"sort", filter_sort, "reverse case_sensitive attribute", 0},
    {"unique", filter_unique, "case_sensitive attribute", 0},
    {"groupby", filter_groupby, "attribute default case_sensitive", 1},
    {"min", filter_min, "case_sensitive attribute", 0},
    {"max", filter_max, "case_sensitive attribute", 0},
    {"sum", filter_sum, "attribute start", 0},
    {"first", filter_first, "", 0},
    {"last", filter_last, "", 0},
    {"reverse", filter_reverse, "", 0},
    {"batch", filter_batch, "linecount fill_with", 1},
    {"slice", filter_slice, "slices fill_with", 1},
    {"attr", filter_attr, "name", 1},
};

}  // namespace

std::span<const Builtin> sequence_filters() { return kFilters; }

}  // namespace colibri::text::jinja

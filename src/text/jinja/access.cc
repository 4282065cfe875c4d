// Attributes, items, slices and iteration.
#include <algorithm>
#include <string>

#include "text/jinja/builtins.h"
#include "text/jinja/loop.h"
#include "text/jinja/ops.h"
#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

std::string_view object_name(const Value& value) { return value.is_none() ? "None" : type_name(value); }

Value no_attribute(Runtime& rt, const Value& object, std::string_view name) {
  TextBuilder what(rt.heap);
  what.append("'");
  what.append(object_name(object));
  what.append(object.is_none() ? "' has no attribute '" : " object' has no attribute '");
  what.append(name);
  what.append("'");
  return Value::undefined(what.finish());
}

Value unsafe_attribute(Runtime& rt, const Value& object, std::string_view name) {
  TextBuilder what(rt.heap);
  what.append("access to attribute '");
  what.append(name);
  what.append("' of '");
  what.append(type_name(object));
  what.append("' object is unsafe: a chat template may not change its data");
  return Value::undefined(what.finish());
}

Value macro_attribute(Runtime& rt, const MacroDef& def, std::string_view name) {
  if (name == "name") return Value::string(def.name);
  if (name == "caller") return Value::boolean(def.caller != nullptr);
  if (name == "catch_kwargs") return Value::boolean(def.kwargs != nullptr);
  if (name == "catch_varargs") return Value::boolean(def.varargs != nullptr);
  if (name != "arguments") return {};
  ListBuilder names(rt.heap);
  for (const Param& param : def.params) names.push(Value::string(param.name->name));
  return names.finish_tuple();
}

// What is neither a method nor an item; missing when there is no such thing.
Result<Value> own_attribute(Runtime& rt, const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kNamespace: {
      const Value* value = name.starts_with('_') ? nullptr : namespace_find(object.as_namespace(), name);
      return value != nullptr ? *value : Value();
    }
    case Kind::kLoop:
      return object.as_loop().attribute(rt, name);
    case Kind::kMacro:
      return macro_attribute(rt, *object.as_macro().def, name);
    case Kind::kCycler:
      if (name == "current") return object.as_cycler().items.items[object.as_cycler().next];
      return Value();
    case Kind::kTuple:
      if (object.as_list().is_group && name == "grouper") return object.items()[0];
      if (object.as_list().is_group && name == "list") return object.items()[1];
      return Value();
    default:
      return Value();
  }
}

// The attribute that Python's getattr finds and the sandbox lets through; missing when there is none.
Result<Value> attribute_only(Runtime& rt, const Value& object, std::string_view name) {
  if (name.starts_with("__")) return unsafe_attribute(rt, object, name);
  if (is_mutating_method(object, name)) return unsafe_attribute(rt, object, name);
  COLIBRI_ASSIGN(const Value own, own_attribute(rt, object, name));
  if (!own.is_missing()) return own;
  const Builtin* method = find_method(object, name);
  return method != nullptr ? Value::method(rt.heap.make<Method>(object, method)) : Value();
}

// The position of `index` in something of `size` items; -1 when it is outside.
int64_t position(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}

Value character(const Value& text, size_t start) {
  const std::string_view all = text.as_string();
  return Value::string(all.substr(start, code_point_bytes(all[start])), text.is_markup());
}

// The item, or missing.
Value item_only(const Value& object, const Value& index) {
  if (object.is(Kind::kDict)) {
    const Value* value = is_hashable(index) ? dict_find(object.as_dict(), index) : nullptr;
    return value != nullptr ? *value : Value();
  }
  if (!index.is_integral()) return {};
  const int64_t i = index.as_int();
  if (object.is_sequence()) {
    const int64_t at = position(i, object.as_list().size);
    return at >= 0 ? object.items()[static_cast<size_t>(at)] : Value();
  }
  if (object.is_string()) {
    const std::string_view text = object.as_string();
    const int64_t at = position(i, static_cast<int64_t>(count_code_points(text)));
    return at >= 0 ? character(object, byte_offset(text, static_cast<size_t>(at))) : Value();
  }
  if (object.is(Kind::kRange)) {
    const int64_t at = position(i, object.as_range().count);
    return at >= 0 ? range_item(object.as_range(), at) : Value();
  }
  return {};
}

struct Bounds {
  int64_t start, stop, step, count;
};

Result<int64_t> slice_bound(Runtime& rt, const Value& bound, int64_t fallback, int64_t size, int64_t low,
                            int64_t high) {
  if (bound.is_missing() || bound.is_none()) return fallback;
  if (!bound.is_integral()) return unsupported(rt, "as a slice's bound", bound);
  const int64_t i = bound.as_int();
  return std::clamp(i < 0 ? i + size : i, low, high);
}

// Python's slice.indices.
Result<Bounds> slice_bounds(Runtime& rt, int64_t size, const Value& start, const Value& stop, const Value& step) {
  int64_t by = 1;
  if (!step.is_missing() && !step.is_none()) {
    if (!step.is_integral()) return unsupported(rt, "as a slice's step", step);
    by = std::max(step.as_int(), -INT64_MAX);
  }
  if (by == 0) return rt.fail("a slice's step cannot be zero");
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? size : size - 1;
  COLIBRI_ASSIGN(const int64_t first, slice_bound(rt, start, by > 0 ? low : high, size, low, high));
  COLIBRI_ASSIGN(const int64_t last, slice_bound(rt, stop, by > 0 ? high : low, size, low, high));
  const int64_t distance = by > 0 ? last - first : first - last;
  const int64_t stride = by > 0 ? by : -by;
  return Bounds{first, last, by, distance > 0 ? (distance - 1) / stride + 1 : 0};
}

Value slice_string(Runtime& rt, const Value& object, const Bounds& bounds) {
  const std::string_view text = object.as_string();
  if (bounds.count == 0) return Value::string({}, object.is_markup());
  if (bounds.step == 1) {
    const size_t start = byte_offset(text, static_cast<size_t>(bounds.start));
    const std::string_view rest = text.substr(start);
    return Value::string(rest.substr(0, byte_offset(rest, static_cast<size_t>(bounds.count))), object.is_markup());
  }
  std::vector<uint32_t> starts;
  for (size_t pos = 0; pos < text.size(); pos += code_point_bytes(text[pos])) {
    starts.push_back(static_cast<uint32_t>(pos));
  }
  TextBuilder out(rt.heap);
  for (int64_t i = 0; i < bounds.count; ++i) {
    out.append(character(object, starts[static_cast<size_t>(bounds.start + i * bounds.step)]).as_string());
  }
  return out.finish_string(object.is_markup());
}

Value slice_list(Runtime& rt, const Value& object, const Bounds& bounds) {
  const List* part = nullptr;
  if (bounds.step == 1) {
    part = rt.heap.make<List>(object.as_list().items + bounds.start, static_cast<uint32_t>(bounds.count));
  } else {
    ListBuilder list(rt.heap);
    for (int64_t i = 0; i < bounds.count; ++i) {
      list.push(object.items()[static_cast<size_t>(bounds.start + i * bounds.step)]);
    }
    part = list.finish();
  }
  return object.is(Kind::kList) ? Value::list(part) : Value::tuple(part);
}

Result<Value> slice_range(Runtime& rt, const Range& range, const Bounds& bounds) {
  int64_t step = 0;
  if (__builtin_mul_overflow(range.step, bounds.step, &step)) return rt.fail("a range's step beyond 64 bits");
  const int64_t start = range_item(range, bounds.start).as_int(), stop = range_item(range, bounds.stop).as_int();
  return Value::range(rt.heap.make<Range>(start, stop, step, bounds.count));
}

const List* view_items(Runtime& rt, const DictView& view) {
  ListBuilder list(rt.heap);
  for (uint32_t i = 0; i < view.dict->size; ++i) {
    const DictEntry& entry = view.dict->entries[i];
    if (view.part == DictView::Part::kKeys) list.push(entry.key);
    if (view.part == DictView::Part::kValues) list.push(entry.value);
    if (view.part == DictView::Part::kItems) {
      Value* pair = rt.heap.make_array<Value>(2);
      pair[0] = entry.key;
      pair[1] = entry.value;
      list.push(Value::tuple(rt.heap.make<List>(pair, 2U)));
    }
  }
  return list.finish();
}

const List* characters(Runtime& rt, std::string_view text) {
  ListBuilder list(rt.heap);
  for (size_t pos = 0; pos < text.size();) {
    const size_t bytes = code_point_bytes(text[pos]);
    list.push(Value::string(text.substr(pos, bytes)));
    pos += bytes;
  }
  return list.finish();
}

const List* numbers(Runtime& rt, const Range& range) {
  ListBuilder list(rt.heap);
  for (int64_t i = 0; i < range.count; ++i) list.push(range_item(range, i));
  return list.finish();
}

}  // namespace

Result<Value> get_attr(Runtime& rt, const Value& object, std::string_view name) {
  if (object.is_undefined()) return undefined_error(rt, object);
  COLIBRI_ASSIGN(const Value attribute, attribute_only(rt, object, name));
  if (!attribute.is_missing()) return attribute;
  const Value item = item_only(object, Value::string(name));
  return item.is_missing() ? no_attribute(rt, object, name) : item;
}

Result<Value> get_item(Runtime& rt, const Value& object, const Value& index) {
  if (object.is_undefined()) return undefined_error(rt, object);
  if (object.is_string()) COLIBRI_TRY(rt.step_bytes(object.as_string().size()));
  if (index.is_string()) COLIBRI_TRY(rt.step_bytes(index.as_string().size()));
  const Value item = item_only(object, index);
  if (!item.is_missing()) return item;
  if (!index.is_string()) {
    TextBuilder what(rt.heap);
    what.append(object_name(object));
    what.append(object.is_none() ? " has no such element" : " object has no such element");
    return Value::undefined(what.finish());
  }
  COLIBRI_ASSIGN(const Value attribute, attribute_only(rt, object, index.as_string()));
  return attribute.is_missing() ? no_attribute(rt, object, index.as_string()) : attribute;
}

Result<Value> get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step) {
  const bool sliceable = object.is_string() || object.is_sequence() || object.is(Kind::kRange);
  if (!sliceable) return unsupported(rt, "with a slice", object);
  COLIBRI_ASSIGN(const int64_t size, length(rt, object));
  COLIBRI_ASSIGN(const Bounds bounds, slice_bounds(rt, size, start, stop, step));
  if (object.is_string()) return slice_string(rt, object, bounds);
  COLIBRI_TRY(rt.step_items(static_cast<uint64_t>(bounds.step == 1 ? 0 : bounds.count)));
  if (object.is_sequence()) return slice_list(rt, object, bounds);
  return slice_range(rt, object.as_range(), bounds);
}

Result<int64_t> length(Runtime& rt, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      COLIBRI_TRY(rt.step_bytes(value.as_string().size()));
      return static_cast<int64_t>(count_code_points(value.as_string()));
    case Kind::kList:
    case Kind::kTuple:
      return value.as_list().size;
    case Kind::kDict:
      return value.as_dict().size;
    case Kind::kDictView:
      return value.as_dict_view().dict->size;
    case Kind::kRange:
      return value.as_range().count;
    case Kind::kLoop: {
      COLIBRI_ASSIGN(const Value size, value.as_loop().attribute(rt, "length"));
      return size.as_int();
    }
    default:
      return unsupported(rt, "for its length", value);
  }
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange:
    case Kind::kIterator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

Result<const List*> items_of(Runtime& rt, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return rt.heap.make<List>(nullptr, 0U);
    case Kind::kList:
    case Kind::kTuple:
      return &value.as_list();
    case Kind::kString:
      COLIBRI_TRY(rt.step_bytes(value.as_string().size() * 4));
      return characters(rt, value.as_string());
    case Kind::kRange:
      COLIBRI_TRY(rt.step_items(static_cast<uint64_t>(value.as_range().count)));
      return numbers(rt, value.as_range());
    case Kind::kDict: {
      COLIBRI_TRY(rt.step_items(value.as_dict().size));
      return view_items(rt, {&value.as_dict(), DictView::Part::kKeys});
    }
    case Kind::kDictView:
      COLIBRI_TRY(rt.step_items(value.as_dict_view().dict->size));
      return view_items(rt, value.as_dict_view());
    case Kind::kIterator: {
      Iterator& iterator = value.as_iterator();
      const uint32_t next = std::exchange(iterator.next, iterator.items.size);
      return rt.heap.make<List>(iterator.items.items + next, iterator.items.size - next);
    }
    default:
      return unsupported(rt, "to iterate over", value);
  }
}

Value range_item(const Range& range, int64_t index) { return Value::integer(range.start + index * range.step); }

}  // namespace colibri::text::jinja

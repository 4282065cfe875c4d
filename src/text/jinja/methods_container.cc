// Methods of dicts, lists, cyclers and loops. What would change a list or dict is hidden (is_mutating_method).
#include <algorithm>
#include <string>

#include "text/jinja/builtins.h"
#include "text/jinja/loop.h"
#include "text/jinja/ops.h"

namespace colibri::text::jinja {
namespace {

template <DictView::Part Part>
Result<Value> method_view(Call& call) {
  return Value::dict_view(call.rt.heap.make<DictView>(&call.self.as_dict(), Part));
}

Result<Value> method_get(Call& call) {
  COLIBRI_ASSIGN(const Value* value, dict_get(call.rt, call.self.as_dict(), call.arg[0]));
  if (value != nullptr) return *value;
  return call.has(1) ? call.arg[1] : Value::none();
}

Result<Value> method_copy(Call& call) { return call.self; }  // nothing can change either of the two

Result<Value> method_count(Call& call) {
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  int64_t count = 0;
  for (uint32_t i = 0; i < items->size; ++i) {
    COLIBRI_ASSIGN(const bool same, equals(call.rt, items->items[i], call.arg[0]));
    count += same ? 1 : 0;
  }
  return Value::integer(count);
}

Result<Value> method_index(Call& call) {
  COLIBRI_ASSIGN(const List* items, items_of(call.rt, call.self));
  const int64_t size = items->size;
  COLIBRI_ASSIGN(int64_t start, call.integer(1, 0));
  COLIBRI_ASSIGN(int64_t end, call.integer(2, size));
  if (start < 0) start = std::max<int64_t>(start + size, 0);
  if (end < 0) end += size;
  for (int64_t i = start; i < std::min(end, size); ++i) {
    COLIBRI_ASSIGN(const bool same, equals(call.rt, items->items[i], call.arg[0]));
    if (same) return Value::integer(i);
  }
  return call.fail("the value is not in the list");
}

Result<Value> method_next(Call& call) {
  Cycler& cycler = call.self.as_cycler();
  const Value value = cycler.items.items[cycler.next];
  cycler.next = (cycler.next + 1) % cycler.items.size;
  return value;
}

Result<Value> method_reset(Call& call) {
  call.self.as_cycler().next = 0;
  return Value::none();
}

Result<Value> method_cycle(Call& call) { return call.self.as_loop().cycle(call.rt, call.args.positional); }
Result<Value> method_changed(Call& call) { return call.self.as_loop().changed(call.rt, call.args.positional); }

constexpr Builtin kDictMethods[] = {
    {"get", method_get, "key default", 1},
    {"items", method_view<DictView::Part::kItems>, "", 0},
    {"keys", method_view<DictView::Part::kKeys>, "", 0},
    {"values", method_view<DictView::Part::kValues>, "", 0},
    {"copy", method_copy, "", 0},
};

constexpr Builtin kListMethods[] = {
    {"count", method_count, "value", 1},
    {"index", method_index, "value start stop", 1},
    {"copy", method_copy, "", 0},
};

constexpr Builtin kCyclerMethods[] = {
    {"next", method_next, "", 0},
    {"reset", method_reset, "", 0},
};

constexpr Builtin kLoopMethods[] = {
    {"cycle", method_cycle, "*", 0},
    {"changed", method_changed, "*", 0},
};

}  // namespace

std::span<const Builtin> dict_methods() { return kDictMethods; }
std::span<const Builtin> list_methods() { return kListMethods; }
std::span<const Builtin> cycler_methods() { return kCyclerMethods; }
std::span<const Builtin> loop_methods() { return kLoopMethods; }

}  // namespace colibri::text::jinja

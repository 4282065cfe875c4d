// The functions that every template can call.
#include <algorithm>
#include <string>

#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/ops.h"
#include "text/jinja/strftime.h"

namespace colibri::text::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // as in jinja's sandbox

Result<Value> global_range(Call& call) {
  if (call.has_value(2) && call.arg[2].is_integral() && call.arg[2].as_int() == 0) return call.fail("a step of zero");
  COLIBRI_ASSIGN(const int64_t first, call.integer(0));
  COLIBRI_ASSIGN(const int64_t second, call.integer(1));
  COLIBRI_ASSIGN(const int64_t step, call.integer(2, 1));
  const int64_t start = call.has(1) ? first : 0, stop = call.has(1) ? second : first;
  int64_t distance = 0;
  const bool overflows =
      step > 0 ? __builtin_sub_overflow(stop, start, &distance) : __builtin_sub_overflow(start, stop, &distance);
  const int64_t stride = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
  const int64_t count = distance > 0 ? (distance - 1) / stride + 1 : 0;
  if (overflows || count > kMaxRange) return call.fail({"more than ", std::to_string(kMaxRange), " numbers"});
  return Value::range(call.rt.heap.make<Range>(start, stop, step, count));
}

// A dict from a mapping or pairs, and named values.
Result<const Dict*> make_dict(Call& call) {
  DictBuilder dict(call.rt.heap);
  if (call.args.positional.size() > 1) return call.fail("takes at most one argument without a name");
  if (!call.args.positional.empty() && call.args.positional[0].is(Kind::kDict)) {
    const Dict& from = call.args.positional[0].as_dict();
    for (uint32_t i = 0; i < from.size; ++i) dict.set(from.entries[i].key, from.entries[i].value);
  } else if (!call.args.positional.empty()) {
    COLIBRI_ASSIGN(const List* pairs, items_of(call.rt, call.args.positional[0]));
    for (uint32_t i = 0; i < pairs->size; ++i) {
      COLIBRI_ASSIGN(const List* pair, items_of(call.rt, pairs->items[i]));
      if (pair->size != 2) return call.fail("pairs of a key and a value are wanted");
      if (!is_hashable(pair->items[0])) return unsupported(call.rt, "as the key of a dict", pair->items[0]);
      if (pair->items[0].is_string()) COLIBRI_TRY(call.rt.step_bytes(pair->items[0].as_string().size() * 16));
      dict.set(pair->items[0], pair->items[1]);
    }
  }
  for (const NamedArg& arg : call.args.named) dict.set(Value::string(arg.name), arg.value);
  return dict.finish();
}

Result<Value> global_dict(Call& call) {
  COLIBRI_ASSIGN(const Dict* dict, make_dict(call));
  return Value::dict(dict);
}

Result<Value> global_namespace(Call& call) {
  COLIBRI_ASSIGN(const Dict* dict, make_dict(call));
  auto* space = call.rt.heap.make<Namespace>(nullptr, 0U, 0U);
  for (uint32_t i = 0; i < dict->size; ++i) {
    if (!dict->entries[i].key.is_string()) return unsupported(call.rt, "as a name", dict->entries[i].key);
    COLIBRI_TRY(call.rt.step_items(space->size));
    namespace_set(call.rt, *space, dict->entries[i].key.as_string(), dict->entries[i].value);
  }
  return Value::name_space(space);
}

Result<Value> global_cycler(Call& call) {
  if (call.args.positional.empty()) return call.fail("at least one value is wanted");
  ListBuilder items(call.rt.heap);
  for (const Value& value : call.args.positional) items.push(value);
  return Value::cycler(call.rt.heap.make<Cycler>(*items.finish(), 0U));
}

Result<Value> global_joiner(Call& call) {
  COLIBRI_ASSIGN(const std::string_view separator, call.string(0, ", "));
  return Value::joiner(call.rt.heap.make<Joiner>(separator, false));
}

// The template refuses: its own words, and the code that says that the caller's messages are at fault.
Result<Value> global_raise_exception(Call& call) {
  COLIBRI_ASSIGN(const std::string_view message, to_str(call.rt, call.arg[0]));
  return Error{ErrorCode::kUsage, std::string(message)};
}

Result<Value> global_strftime_now(Call& call) {
  COLIBRI_ASSIGN(const std::string_view format, call.string(0));
  COLIBRI_TRY(call.rt.step_bytes(format.size() * 16));
  return Value::string(call.rt.heap.copy(format_time(call.rt.options.now_seconds, format)));
}

constexpr Builtin kGlobals[] = {
    {"range", global_range, "start stop step", 1},
    {"dict", global_dict, "*", 0},
    {"namespace", global_namespace, "*", 0},
    {"cycler", global_cycler, "*", 0},
    {"joiner", global_joiner, "sep", 0},
    {"raise_exception", global_raise_exception, "message", 1},
    {"strftime_now", global_strftime_now, "format", 1},
};

}  // namespace

const Builtin* find_global(std::string_view name) {
  for (const Builtin& global : kGlobals) {
    if (global.name == name) return &global;
  }
  return nullptr;
}

}  // namespace colibri::text::jinja

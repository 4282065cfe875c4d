#include "text/jinja/builtins.h"

#include <string>

#include "text/jinja/ops.h"

namespace colibri::text::jinja {
namespace {

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  for (const Builtin& row : table) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Takes the first name off a list of names.
std::string_view next_name(std::string_view& names) {
  const size_t blank = names.find(' ');
  const std::string_view name = names.substr(0, blank);
  names = blank == std::string_view::npos ? std::string_view() : names.substr(blank + 1);
  return name;
}

Status bind_named(Call& call, const NamedArg& named) {
  std::string_view names = call.builtin.params;
  for (size_t i = 0; !names.empty(); ++i) {
    if (next_name(names) != named.name) continue;
    if (call.has(i)) return call.fail({"argument '", named.name, "' is given twice"});
    call.arg[i] = named.value;
    return {};
  }
  return call.fail({"there is no argument '", named.name, "'"});
}

Status bind(Call& call) {
  std::string_view names = call.builtin.params;
  size_t count = 0;
  for (std::string_view rest = names; !rest.empty(); ++count) next_name(rest);
  const auto& positional = call.args.positional;
  if (positional.size() > count) {
    return call.fail(
        {"takes at most ", std::to_string(count), " arguments, ", std::to_string(positional.size()), " were given"});
  }
  for (size_t i = 0; i < positional.size(); ++i) call.arg[i] = positional[i];
  for (const NamedArg& named : call.args.named) COLIBRI_TRY(bind_named(call, named));
  for (size_t i = 0; i < call.builtin.required; ++i) {
    const std::string_view name = next_name(names);
    if (!call.has(i)) return call.fail({"argument '", name, "' is missing"});
  }
  return {};
}

Status count_size(Runtime& rt, const Value& self) {
  if (self.is_string()) return rt.step_bytes(self.as_string().size());
  if (self.is_sequence()) return rt.step_items(self.as_list().size);
  if (self.is(Kind::kDict)) return rt.step_items(self.as_dict().size);
  return {};
}

}  // namespace

Result<int64_t> Call::integer(size_t i, int64_t fallback) const {
  if (!has(i)) return fallback;
  if (!arg[i].is_integral()) return fail({"an integer is wanted, not ", type_name(arg[i])});
  return arg[i].as_int();
}

Result<std::string_view> Call::string(size_t i, std::string_view fallback) const {
  if (!has_value(i)) return fallback;
  if (!arg[i].is_string()) return fail({"a string is wanted, not ", type_name(arg[i])});
  return arg[i].as_string();
}

bool Call::truth(size_t i, bool fallback) const { return has(i) ? is_true(arg[i]) : fallback; }

Error Call::fail(Pieces message) const { return rt.fail({builtin.name, ": ", concat(message)}); }

Result<Value> invoke(Runtime& rt, const Builtin& builtin, const Value& self, const Args& args) {
  COLIBRI_TRY(count_size(rt, self));
  Call call{rt, builtin, self, args, {}};
  if (builtin.params != "*") COLIBRI_TRY(bind(call));
  return builtin.function(call);
}

const Builtin* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), number_filters()}) {
    if (const Builtin* filter = find_in(table, name)) return filter;
  }
  return nullptr;
}

const Builtin* find_method(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::kString: {
      const Builtin* method = find_in(string_methods(), name);
      return method != nullptr ? method : find_in(string_predicates(), name);
    }
    case Kind::kDict:
      return find_in(dict_methods(), name);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return find_in(list_methods(), name);
    case Kind::kCycler:
      return find_in(cycler_methods(), name);
    case Kind::kLoop:
      return find_in(loop_methods(), name);
    default:
      return nullptr;
  }
}

bool is_mutating_method(const Value& self, std::string_view name) {
  constexpr std::string_view kOfDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  constexpr std::string_view kOfList[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  const auto holds = [name](std::span<const std::string_view> names) {
    for (const std::string_view n : names) {
      if (n == name) return true;
    }
    return false;
  };
  if (self.is(Kind::kDict)) return holds(kOfDict);
  return self.is(Kind::kList) && holds(kOfList);
}

}  // namespace colibri::text::jinja

// Builtins: how filters, tests, methods and global functions are declared, found and called.
//
// Each family is one or more tables of rows (name, function, parameters); the binder sorts positional and keyword
// arguments into the parameters' order and refuses what does not fit, so that the functions only see bound values.
// Thread-safety: the tables are constants.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace colibri::text::jinja {

struct NamedArg {
  std::string_view name;
  Value value;
};

struct Args {
  std::vector<Value> positional;
  std::vector<NamedArg> named;
};

constexpr size_t kMaxParams = 5;

/// One call: the input of a filter or test, the object of a method, and the arguments in the order of the parameters.
struct Call {
  Runtime& rt;
  const Builtin& builtin;
  Value self;
  const Args& args;  ///< as given; what functions with the parameters "*" read
  std::array<Value, kMaxParams> arg;

  bool has(size_t i) const { return !arg[i].is_missing(); }
  bool has_value(size_t i) const { return has(i) && !arg[i].is_none(); }
  /// The argument as an integer, or `fallback` when it was not given.
  Result<int64_t> integer(size_t i, int64_t fallback = 0) const;
  /// The argument as a string; not given or None: `fallback`.
  Result<std::string_view> string(size_t i, std::string_view fallback = {}) const;
  bool truth(size_t i, bool fallback) const;
  Error fail(Pieces message) const;  ///< "NAME: MESSAGE"
  Error fail(std::string_view message) const { return fail({message}); }
};

struct Builtin {
  std::string_view name;
  Result<Value> (*function)(Call& call);
  std::string_view params;  ///< names, separated by blanks; "*": whatever is given, unbound
  size_t required = 0;      ///< so many of them must be given
};

/// Binds the arguments and calls. Counts steps for the size of `self`.
Result<Value> invoke(Runtime& rt, const Builtin& builtin, const Value& self, const Args& args);

/// Null when there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
/// The method `name` of values like `self`.
const Builtin* find_method(const Value& self, std::string_view name);
/// Whether `name` is a method of values like `self` that would change them (the sandbox hides those).
bool is_mutating_method(const Value& self, std::string_view name);

/// The tables, each in the file of its name.
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> string_methods();
std::span<const Builtin> string_predicates();
std::span<const Builtin> dict_methods();
std::span<const Builtin> list_methods();
std::span<const Builtin> cycler_methods();
std::span<const Builtin> loop_methods();

}  // namespace colibri::text::jinja

// SchemaCompiler: JSON schemas as rules of an automaton.
//
// What restricts and is not supported is refused, never dropped: the error names the place in the schema and the
// keyword. Some schemas are held to less than they allow (an order of properties, one spelling of each string): every
// answer satisfies the schema, but not every value that satisfies it can be answered. docs/constraints.md has the list.
// Time and memory are bounded by kMaxWork values read, whatever the schema. Thread-safety: one thread.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "sampling/grammar/automaton.h"
#include "sampling/grammar/json_rules.h"

namespace colibri::sampling::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(AutomatonBuilder& builder, JsonRules& rules) : b_(builder), rules_(rules) {}

  /// Adds the values of `schema` from `from` on; returns the state behind them. `schema` must stay until the automaton
  /// is built.
  Result<State> add(const Json& schema, State from);

 private:
  /// Where in the schema something stands: a chain up to the root.
  struct Place {
    const Place* parent;
    std::string_view key;
    std::string text() const;
    std::string text(std::string_view member) const { return Place{this, member}.text(); }
  };
  struct Property {
    std::string_view name;
    const Json* schema;  // nullptr: any value
    bool required;
  };
  struct Properties {
    std::vector<Property> named;
    const Json* others = nullptr;  // the schema of other properties
    bool allows_others = false;
  };

  // schema.cc: what a schema is made of
  Status charge(const Json& json, const Place& place);
  Result<State> value(const Json& schema, const Place& place, State from);
  Result<State> value_inside(const Json& schema, const Place& place, State from);
  Result<State> alternatives(const Json& schema, const Place& place, State from);
  Result<State> reference(const std::string& target, const Place& place, State from);
  Result<const Json*> find(const std::string& target, const Place& place) const;
  Status define_references();
  Result<State> listed(const Json& schema, const Place& place, State from);
  Result<State> typed(const Json& schema, const Place& place, State from);
  Result<State> of_type(std::string_view type, const Json& schema, const Place& place, State from);

  // schema_merge.cc: several schemas as one
  Result<Json> flatten(const Json& schema, const Place& place, int depth = 0);
  Status merge(Json& into, const Json& other, const Place& place);
  Status merge_member(Json& into, const std::string& key, const Json& other, const Place& place);

  // schema_scalars.cc, schema_containers.cc
  Result<State> string(const Json& schema, const Place& place, State from);
  Result<State> number(const Json& schema, const Place& place, State from, bool whole);
  Result<Properties> properties(const Json& schema, const Place& place);
  Result<State> object(const Json& schema, const Place& place, State from);
  Result<State> add_properties(const Properties& properties, const Place& place, State open);
  Result<State> add_items(const Json& schema, const Place& place, State open);
  Result<State> array(const Json& schema, const Place& place, State from);
  Result<State> any_or(const Json* schema, const Place& place, State from);
  Result<State> literal(const Json& value, const Place& place, State from);

  struct Pending {
    Rule rule;
    const Json* schema;
    std::string path;
  };
  AutomatonBuilder& b_;
  JsonRules& rules_;
  const Json* root_ = nullptr;
  int64_t work_ = 0;
  int depth_ = 0;
  std::deque<Json> made_;  // schemas that merging made
  std::map<const Json*, Rule> references_;
  std::deque<Pending> pending_;
};

/// A member that must be a whole number from 0 on, or `fallback`.
Result<int64_t> count_member(const Json& schema, std::string_view key, int64_t fallback, const std::string& place);

/// Error kUsage "PLACE: WHAT".
Error schema_error(const std::string& place, const std::string& what);

/// How many values a value consists of.
int64_t n_values(const Json& json);

}  // namespace colibri::sampling::grammar

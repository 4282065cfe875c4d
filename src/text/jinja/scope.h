// Scope: which variable a name means, decided before the template runs, by jinja's own rules.
//
// While parsing, every scope (the template, a loop body, a macro, a block that captures) records its names in the order
// in which they stand. resolve() then gives each variable a slot in the frame of its function and each name a
// reference. The rules that templates rely on: what a loop body, block or macro sets stays inside; it begins with the
// outer value; a name that is set, without condition, before anything reads it does not see the context's value of that
// name. Thread-safety: immutable after resolve().
#pragma once

#include <string_view>
#include <vector>

namespace colibri::text::jinja {

/// One frame's worth of variables: the template, a macro, a call block's body or a recursive loop.
struct Function {
  Function* parent = nullptr;
  int slots = 0;
};

/// Where a name's variable lives: `hops` functions outwards, in `slot`.
struct NameRef {
  std::string_view name;
  int hops = 0;
  int slot = -1;
};

struct NameEvent {
  enum class Kind : unsigned char { kLoad, kStore, kParam };
  Kind kind;
  bool is_conditional;  // inside an if
  NameRef* ref;
};

/// What a slot holds when its scope is entered.
struct SlotInit {
  enum class Source : unsigned char { kNothing, kContext, kOuter };
  Source source;
  int slot;
  std::string_view name;  // kContext: looked up in the context, then among the globals
  int hops;               // kOuter: copied from here
  int outer_slot;
};

struct Scope {
  Scope* parent = nullptr;
  Function* function = nullptr;
  std::vector<NameEvent> events;
  std::vector<Scope*> children;
  std::vector<SlotInit> inits;
};

/// Fills the NameRefs, inits and slot counts of `root` and everything below. Recurses as deep as scopes nest.
void resolve(Scope& root);

}  // namespace colibri::text::jinja

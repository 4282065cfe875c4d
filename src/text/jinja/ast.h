// The syntax tree of a template, and Program, which owns it with everything it names.
//
// Names are resolved when parsed: a NameRef says in which frame, counted outwards from the running one, and in which
// slot of it the variable lives. Statement bodies that jinja scopes carry a Scope, whose `inits` run whenever it is
// entered. Thread-safety: immutable after parsing.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/scope.h"
#include "text/jinja/value.h"

namespace colibri::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
struct Stmt;
using Block = std::vector<Stmt>;

// --- expressions ---

struct ConstExpr {
  Value value;
};
struct NameExpr {
  const NameRef* ref;
};
struct ListExpr {
  std::vector<ExprPtr> items;
  bool is_tuple;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
enum class UnaryOp : uint8_t { kNot, kNegate, kPlus };
struct UnaryExpr {
  UnaryOp op;
  ExprPtr operand;
};
enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
struct BinaryExpr {
  BinaryOp op;
  ExprPtr left, right;
};
struct LogicExpr {
  bool is_and;
  ExprPtr left, right;
};
enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };
struct CompareExpr {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;  // a < b < c
};
struct ConcatExpr {
  std::vector<ExprPtr> parts;
};
struct CondExpr {
  ExprPtr test, then, otherwise;  // no `otherwise`: undefined
};
struct AttrExpr {
  ExprPtr object;
  std::string_view name;
};
struct ItemExpr {
  ExprPtr object, index;
};
struct SliceExpr {
  ExprPtr object, start, stop, step;  // null: not given
};
struct ArgExprs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string_view, ExprPtr>> named;
  ExprPtr star, star_star;  // null: not given
};
struct CallExpr {
  ExprPtr callee;
  ArgExprs args;
};
/// `input|name(args)`; `builtin` is null when there is no such filter, an error only when it is reached.
struct FilterExpr {
  ExprPtr input;  // null: what the block around it wrote
  std::string_view name;
  const Builtin* builtin;
  ArgExprs args;
};
struct TestExpr {
  ExprPtr input;
  std::string_view name;
  const Builtin* builtin;
  ArgExprs args;
};

struct Expr {
  int line = 0;
  int depth = 0;  // of the tree below; bounded, because evaluation and destruction recurse
  std::variant<ConstExpr, NameExpr, ListExpr, DictExpr, UnaryExpr, BinaryExpr, LogicExpr, CompareExpr, ConcatExpr,
               CondExpr, AttrExpr, ItemExpr, SliceExpr, CallExpr, FilterExpr, TestExpr>
      node;
};

// --- statements ---

/// What is assigned to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  const NameRef* name = nullptr;
  std::string_view attribute;  // not empty: NAME.attribute
  std::vector<Target> items;   // a tuple when there is no name
};

struct Param {
  const NameRef* name;
  ExprPtr fallback;  // null: undefined when not given
};

/// A macro, the body of a call block, or a generation block: a function that returns the text it writes.
struct MacroDef {
  std::string_view name;
  std::vector<Param> params;
  const NameRef* caller = nullptr;  // null, here and below: the body does not use it
  const NameRef* kwargs = nullptr;
  const NameRef* varargs = nullptr;
  const Scope* scope = nullptr;
  Block body;
};

struct TextStmt {
  std::string_view text;
};
struct PrintStmt {
  ExprPtr value;
};
struct IfStmt {
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block otherwise;
};
struct ForStmt {
  Target target;
  ExprPtr iterable;
  Target test_target;             // as `target`, in the scope of the test
  ExprPtr test;                   // null: every item
  const NameRef* loop = nullptr;  // null: the body does not use `loop`
  bool is_recursive = false;
  const Scope* scope = nullptr;
  const Scope* test_scope = nullptr;
  const Scope* else_scope = nullptr;
  Block body, otherwise;
};
struct SetStmt {
  Target target;
  ExprPtr value;
};
struct SetBlockStmt {
  Target target;
  ExprPtr filter;  // null: none
  const Scope* scope = nullptr;
  Block body;
};
struct MacroStmt {
  const NameRef* target;
  std::unique_ptr<MacroDef> def;
};
struct CallBlockStmt {
  ExprPtr call;  // a CallExpr; null in a generation block, which just writes its body
  std::unique_ptr<MacroDef> body;
};
struct FilterBlockStmt {
  ExprPtr filter;
  const Scope* scope = nullptr;
  Block body;
};
struct WithStmt {
  std::vector<std::pair<Target, ExprPtr>> bindings;
  const Scope* scope = nullptr;
  Block body;
};
struct LoopControlStmt {
  bool is_break;
};

struct Stmt {
  int line;
  std::variant<TextStmt, PrintStmt, IfStmt, ForStmt, SetStmt, SetBlockStmt, MacroStmt, CallBlockStmt, FilterBlockStmt,
               WithStmt, LoopControlStmt>
      node;
};

struct Program {
  std::string name;
  std::string source;           // tokens and nodes name its text
  Heap heap{int64_t{1} << 40};  // constants; bounded by the source
  std::deque<NameRef> names;
  std::deque<Scope> scopes;
  std::deque<Function> functions;
  const Scope* root = nullptr;
  Block body;
};

}  // namespace colibri::text::jinja

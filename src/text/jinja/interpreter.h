// Interpreter: runs a Program over a context.
//
// One object per render. Statements write to the current output; macros and blocks that capture swap it for one of
// their own. Native recursion (nested expressions, blocks and macro calls together) is bounded by kMaxNesting.
// Thread-safety: one thread; Programs are shared.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"
#include "text/jinja/loop.h"
#include "text/jinja/runtime.h"

namespace colibri::text::jinja {

/// Levels of evaluation inside each other: at about 1 KB of stack each (3 KB with sanitizers) far below a thread's
/// stack.
constexpr int kMaxNesting = 1500;

/// The variables of one function that is running or that a macro was defined in.
struct Frame {
  Frame* parent;
  Value* slots;
};

class Interpreter {
 public:
  Interpreter(const Program& program, const RenderOptions& options) : program_(program), rt_(program.name, options) {}

  /// REQUIRES: called once; `context` is an object and outlives the call.
  Result<std::string> run(const Json& context);

 private:
  friend class LoopTest;
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };

  // Frames.
  Frame* new_frame(const Function& function, Frame* parent);
  void enter(const Scope& scope);
  Value& variable(const NameRef& ref) const;
  Value from_context(std::string_view name) const;

  // Statements.
  Result<Flow> run_block(const Block& block);
  Result<Flow> run_statement(const Stmt& statement);
  Result<Flow> execute(const TextStmt& s);
  Result<Flow> execute(const PrintStmt& s);
  Result<Flow> execute(const IfStmt& s);
  Result<Flow> execute(const ForStmt& s);
  Result<Flow> execute(const SetStmt& s);
  Result<Flow> execute(const SetBlockStmt& s);
  Result<Flow> execute(const MacroStmt& s);
  Result<Flow> execute(const CallBlockStmt& s);
  Result<Flow> execute(const FilterBlockStmt& s);
  Result<Flow> execute(const WithStmt& s);
  Result<Flow> execute(const LoopControlStmt& s);
  Status write(std::string_view text);
  Status print(const Value& value);
  Status assign(const Target& target, const Value& value);
  Status assign_items(const Target& target, const Value& value);
  /// Not normal when a break or continue in the else part means the loop around.
  Result<Flow> run_loop(const ForStmt& s, const Value& iterable, int depth0);
  /// Whether an iteration came to the end of the body; if none did, be it for a break, jinja runs the else part.
  Result<bool> iterate(const ForStmt& s, LoopState& loop);
  /// Runs the block and gives what it wrote; missing when a break or continue left it.
  Result<Value> capture(const Block& block, Flow& flow);

  // Expressions.
  Result<Value> eval(const Expr& expr);
  Result<Value> evaluate(const ConstExpr& e);
  Result<Value> evaluate(const NameExpr& e);
  Result<Value> evaluate(const ListExpr& e);
  Result<Value> evaluate(const DictExpr& e);
  Result<Value> evaluate(const UnaryExpr& e);
  Result<Value> evaluate(const BinaryExpr& e);
  Result<Value> evaluate(const LogicExpr& e);
  Result<Value> evaluate(const CompareExpr& e);
  Result<Value> evaluate(const ConcatExpr& e);
  Result<Value> evaluate(const CondExpr& e);
  Result<Value> evaluate(const AttrExpr& e);
  Result<Value> evaluate(const ItemExpr& e);
  Result<Value> evaluate(const SliceExpr& e);
  Result<Value> evaluate(const CallExpr& e);
  Result<Value> evaluate(const FilterExpr& e);
  Result<Value> evaluate(const TestExpr& e);
  Result<Value> eval_optional(const ExprPtr& expr);  // missing when there is none

  // Calls.
  Result<Args> eval_args(const ArgExprs& exprs);
  Status add_named(Args& args, const Value& dict) const;
  Result<Value> call(const Value& callee, Args args);
  Result<Value> call_macro(const Macro& macro, Args args);
  Status bind(const MacroDef& def, Args& args);
  Result<Value> call_loop(LoopState& loop, const Args& args);

  const Program& program_;
  Runtime rt_;
  const Dict* context_ = nullptr;
  Frame* frame_ = nullptr;
  std::string* out_ = nullptr;
  Value block_text_;  // what a filter block or set block wrote, for the filter that has no other input
  int nesting_ = 0;
  int calls_ = 0;  // macro calls and recursive loops that are running
};

}  // namespace colibri::text::jinja

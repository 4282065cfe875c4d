// Statements and frames; expressions and calls are in evaluate.cc.
#include "text/jinja/interpreter.h"

#include <algorithm>
#include <utility>

#include "text/jinja/format.h"
#include "text/jinja/json_values.h"
#include "text/jinja/ops.h"

namespace colibri::text::jinja {

/// The test of a for statement, with a frame of its own.
class LoopTest final : public ItemFilter {
 public:
  LoopTest(Interpreter& interpreter, const ForStmt& statement, Frame* frame)
      : interpreter_(interpreter), statement_(statement), frame_(frame) {}

  Result<bool> accepts(const Value& item) override {
    Frame* const outer = std::exchange(interpreter_.frame_, frame_);
    Result<bool> result = test(item);
    interpreter_.frame_ = outer;
    return result;
  }

 private:
  Result<bool> test(const Value& item) {
    COLIBRI_TRY(interpreter_.assign(statement_.test_target, item));
    interpreter_.enter(*statement_.test_scope);
    COLIBRI_ASSIGN(const Value result, interpreter_.eval(*statement_.test));
    return is_true(result);
  }

  Interpreter& interpreter_;
  const ForStmt& statement_;
  Frame* frame_;
};

Result<std::string> Interpreter::run(const Json& context) {
  std::string text;
  COLIBRI_ASSIGN(const Value values, value_of_json(rt_, context, TextIs::kBorrowed));
  if (!values.is(Kind::kDict)) return rt_.fail("the context is no object");
  context_ = &values.as_dict();
  out_ = &text;
  frame_ = new_frame(*program_.root->function, nullptr);
  enter(*program_.root);
  COLIBRI_TRY(run_block(program_.body));
  COLIBRI_TRY(rt_.step());  // the last statement may have exhausted the heap
  return text;
}

// --- frames ---

Frame* Interpreter::new_frame(const Function& function, Frame* parent) {
  const auto slots = static_cast<size_t>(function.slots);
  return rt_.heap.make<Frame>(parent, rt_.heap.make_array<Value>(slots));
}

void Interpreter::enter(const Scope& scope) {
  for (const SlotInit& init : scope.inits) {
    Value value;
    if (init.source == SlotInit::Source::kContext) value = from_context(init.name);
    if (init.source == SlotInit::Source::kOuter) value = variable({init.name, init.hops, init.outer_slot});
    frame_->slots[init.slot] = value;
  }
}

Value& Interpreter::variable(const NameRef& ref) const {
  Frame* frame = frame_;
  for (int i = 0; i < ref.hops; ++i) frame = frame->parent;
  return frame->slots[ref.slot];
}

Value Interpreter::from_context(std::string_view name) const {
  if (const Value* value = dict_find(*context_, Value::string(name))) return *value;
  const Builtin* global = find_global(name);
  return global != nullptr ? Value::function(global) : Value();
}

// --- statements ---

Result<Interpreter::Flow> Interpreter::run_block(const Block& block) {
  if (++nesting_ > kMaxNesting) return rt_.fail({"evaluation nested deeper than ", std::to_string(kMaxNesting)});
  for (const Stmt& statement : block) {
    COLIBRI_ASSIGN(const Flow flow, run_statement(statement));
    if (flow == Flow::kNormal) continue;
    --nesting_;
    return flow;
  }
  --nesting_;
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::run_statement(const Stmt& statement) {
  rt_.line = statement.line;
  COLIBRI_TRY(rt_.step());
  return std::visit([this](const auto& node) { return execute(node); }, statement.node);
}

Status Interpreter::write(std::string_view text) {
  if (out_->size() + text.size() > static_cast<uint64_t>(rt_.options.max_output_bytes)) {
    return rt_.fail({"it writes more than the ", std::to_string(rt_.options.max_output_bytes), " bytes allowed"});
  }
  out_->append(text);
  return {};
}

Status Interpreter::print(const Value& value) {
  COLIBRI_ASSIGN(const std::string_view text, to_str(rt_, value));
  return write(text);
}

Result<Interpreter::Flow> Interpreter::execute(const TextStmt& s) {
  COLIBRI_TRY(write(s.text));
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::execute(const PrintStmt& s) {
  COLIBRI_ASSIGN(const Value value, eval(*s.value));
  COLIBRI_TRY(print(value));
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::execute(const IfStmt& s) {
  for (const auto& [test, body] : s.branches) {
    COLIBRI_ASSIGN(const Value value, eval(*test));
    if (is_true(value)) return run_block(body);
  }
  return run_block(s.otherwise);
}

Result<Interpreter::Flow> Interpreter::execute(const SetStmt& s) {
  COLIBRI_ASSIGN(const Value value, eval(*s.value));
  COLIBRI_TRY(assign(s.target, value));
  return Flow::kNormal;
}

Status Interpreter::assign(const Target& target, const Value& value) {
  if (target.name == nullptr) return assign_items(target, value);
  Value& slot = variable(*target.name);
  if (target.attribute.empty()) {
    slot = value;
    return {};
  }
  if (!slot.is(Kind::kNamespace)) {
    return rt_.fail(
        {"cannot assign to ", target.name->name, ".", target.attribute, ": only a namespace's attributes can be set"});
  }
  namespace_set(rt_, slot.as_namespace(), target.attribute, value);
  return {};
}

Status Interpreter::assign_items(const Target& target, const Value& value) {
  COLIBRI_ASSIGN(const List* items, items_of(rt_, value));
  if (items->size != target.items.size()) {
    return rt_.fail({std::to_string(items->size), " values for ", std::to_string(target.items.size()), " names"});
  }
  for (uint32_t i = 0; i < items->size; ++i) COLIBRI_TRY(assign(target.items[i], items->items[i]));
  return {};
}

Result<Value> Interpreter::capture(const Block& block, Flow& flow) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  COLIBRI_ASSIGN(flow, run_block(block));
  out_ = outer;
  TextBuilder copy(rt_.heap);
  copy.append(text);
  return flow == Flow::kNormal ? copy.finish_string() : Value();
}

Result<Interpreter::Flow> Interpreter::execute(const SetBlockStmt& s) {
  enter(*s.scope);
  Flow flow = Flow::kNormal;
  COLIBRI_ASSIGN(Value text, capture(s.body, flow));
  if (flow != Flow::kNormal) return flow;
  if (s.filter != nullptr) {
    block_text_ = text;
    COLIBRI_ASSIGN(text, eval(*s.filter));
  }
  COLIBRI_TRY(assign(s.target, text));
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute(const FilterBlockStmt& s) {
  enter(*s.scope);
  Flow flow = Flow::kNormal;
  COLIBRI_ASSIGN(const Value text, capture(s.body, flow));
  if (flow != Flow::kNormal) return flow;
  block_text_ = text;
  COLIBRI_ASSIGN(const Value filtered, eval(*s.filter));
  COLIBRI_TRY(print(filtered));
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute(const WithStmt& s) {
  std::vector<Value> values;
  for (const auto& binding : s.bindings) {
    COLIBRI_ASSIGN(const Value value, eval(*binding.second));
    values.push_back(value);
  }
  enter(*s.scope);
  for (size_t i = 0; i < values.size(); ++i) COLIBRI_TRY(assign(s.bindings[i].first, values[i]));
  return run_block(s.body);
}

Result<Interpreter::Flow> Interpreter::execute(const LoopControlStmt& s) {
  return s.is_break ? Flow::kBreak : Flow::kContinue;
}

Result<Interpreter::Flow> Interpreter::execute(const MacroStmt& s) {
  variable(*s.target) = Value::macro(rt_.heap.make<Macro>(s.def.get(), frame_));
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::execute(const CallBlockStmt& s) {
  const Value caller = Value::macro(rt_.heap.make<Macro>(s.body.get(), frame_));
  Value text;
  if (s.call == nullptr) {
    COLIBRI_ASSIGN(text, call(caller, {}));
  } else {
    const auto& expr = std::get<CallExpr>(s.call->node);
    COLIBRI_ASSIGN(const Value callee, eval(*expr.callee));
    COLIBRI_ASSIGN(Args args, eval_args(expr.args));
    args.named.push_back({"caller", caller});
    COLIBRI_ASSIGN(text, call(callee, std::move(args)));
  }
  COLIBRI_TRY(print(text));
  return Flow::kNormal;
}

// --- for ---

Result<Interpreter::Flow> Interpreter::execute(const ForStmt& s) {
  COLIBRI_ASSIGN(const Value iterable, eval(*s.iterable));
  return run_loop(s, iterable, 0);
}

// The current frame is the one that the statement stands in. A recursive loop is a function and gets a frame of its
// own.
Result<Interpreter::Flow> Interpreter::run_loop(const ForStmt& s, const Value& iterable, int depth0) {
  Frame* const outer = frame_;
  const bool is_generator = iterable.is(Kind::kIterator);
  Iterator* items = is_generator ? &iterable.as_iterator() : nullptr;
  if (!is_generator) {
    COLIBRI_ASSIGN(const List* list, items_of(rt_, iterable));
    items = rt_.heap.make<Iterator>(*list, 0U);
  }
  ItemFilter* test = nullptr;
  if (s.test != nullptr) test = rt_.heap.make<LoopTest>(*this, s, new_frame(*s.test_scope->function, outer));
  auto* loop = rt_.heap.make<LoopState>(items, test, !is_generator, depth0);
  if (s.is_recursive) {
    loop->statement = &s;
    loop->closure = outer;
    frame_ = new_frame(*s.scope->function, outer);
  }
  COLIBRI_ASSIGN(const bool ran, iterate(s, *loop));
  Flow flow = Flow::kNormal;
  if (!ran && s.else_scope != nullptr) {
    enter(*s.else_scope);
    COLIBRI_ASSIGN(flow, run_block(s.otherwise));
  }
  frame_ = outer;
  return flow;
}

Result<bool> Interpreter::iterate(const ForStmt& s, LoopState& loop) {
  bool ran = false;
  while (true) {
    COLIBRI_ASSIGN(const Value item, loop.advance(rt_));
    if (item.is_missing()) return ran;
    COLIBRI_TRY(assign(s.target, item));
    enter(*s.scope);
    if (s.loop != nullptr) variable(*s.loop) = Value::loop(&loop);
    COLIBRI_ASSIGN(const Flow flow, run_block(s.body));
    if (flow == Flow::kBreak) return ran;
    ran = ran || flow == Flow::kNormal;
  }
}

}  // namespace colibri::text::jinja

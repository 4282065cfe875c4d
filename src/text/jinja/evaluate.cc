// Expressions and calls; statements are in interpreter.cc.
#include <algorithm>
#include <utility>

#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/ops.h"

namespace colibri::text::jinja {
namespace {

// Takes the argument `name` out of the named ones; missing when it is not there.
Value take_named(Args& args, std::string_view name) {
  const auto it =
      std::find_if(args.named.begin(), args.named.end(), [name](const NamedArg& arg) { return arg.name == name; });
  if (it == args.named.end()) return {};
  const Value value = it->value;
  args.named.erase(it);
  return value;
}

}  // namespace

// --- expressions ---

Result<Value> Interpreter::eval(const Expr& expr) {
  rt_.line = expr.line;
  COLIBRI_TRY(rt_.step());
  if (++nesting_ > kMaxNesting) return rt_.fail({"evaluation nested deeper than ", std::to_string(kMaxNesting)});
  Result<Value> result = std::visit([this](const auto& node) { return evaluate(node); }, expr.node);
  --nesting_;
  return result;
}

Result<Value> Interpreter::eval_optional(const ExprPtr& expr) {
  if (expr == nullptr) return Value();
  return eval(*expr);
}

Result<Value> Interpreter::evaluate(const ConstExpr& e) { return e.value; }

Result<Value> Interpreter::evaluate(const NameExpr& e) {
  const Value value = variable(*e.ref);
  if (!value.is_missing()) return value;
  TextBuilder what(rt_.heap);
  what.append("'");
  what.append(e.ref->name);
  what.append("' is undefined");
  return Value::undefined(what.finish());
}

Result<Value> Interpreter::evaluate(const ListExpr& e) {
  ListBuilder list(rt_.heap);
  for (const ExprPtr& item : e.items) {
    COLIBRI_ASSIGN(const Value value, eval(*item));
    list.push(value);
  }
  return e.is_tuple ? list.finish_tuple() : list.finish_list();
}

Result<Value> Interpreter::evaluate(const DictExpr& e) {
  DictBuilder dict(rt_.heap);
  for (const auto& entry : e.entries) {
    COLIBRI_ASSIGN(const Value key, eval(*entry.first));
    COLIBRI_ASSIGN(const Value value, eval(*entry.second));
    if (!is_hashable(key)) return unsupported(rt_, "as the key of a dict", key);
    dict.set(key, value);
  }
  return dict.finish_dict();
}

Result<Value> Interpreter::evaluate(const UnaryExpr& e) {
  COLIBRI_ASSIGN(const Value operand, eval(*e.operand));
  return apply_unary(rt_, e.op, operand);
}

Result<Value> Interpreter::evaluate(const BinaryExpr& e) {
  COLIBRI_ASSIGN(const Value left, eval(*e.left));
  COLIBRI_ASSIGN(const Value right, eval(*e.right));
  return apply_binary(rt_, e.op, left, right);
}

Result<Value> Interpreter::evaluate(const LogicExpr& e) {
  COLIBRI_ASSIGN(const Value left, eval(*e.left));
  if (is_true(left) != e.is_and) return left;
  return eval(*e.right);
}

Result<Value> Interpreter::evaluate(const CompareExpr& e) {
  COLIBRI_ASSIGN(Value left, eval(*e.first));
  for (const auto& [op, operand] : e.rest) {
    COLIBRI_ASSIGN(const Value right, eval(*operand));
    COLIBRI_ASSIGN(const bool holds, compare(rt_, op, left, right));
    if (!holds) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Result<Value> Interpreter::evaluate(const ConcatExpr& e) {
  TextBuilder text(rt_.heap);
  for (const ExprPtr& part : e.parts) {
    COLIBRI_ASSIGN(const Value value, eval(*part));
    COLIBRI_ASSIGN(const std::string_view piece, to_str(rt_, value));
    text.append(piece);
  }
  return text.finish_string();
}

Result<Value> Interpreter::evaluate(const CondExpr& e) {
  COLIBRI_ASSIGN(const Value test, eval(*e.test));
  if (is_true(test)) return eval(*e.then);
  if (e.otherwise != nullptr) return eval(*e.otherwise);
  return Value::undefined("an inline if without else was false");
}

Result<Value> Interpreter::evaluate(const AttrExpr& e) {
  COLIBRI_ASSIGN(const Value object, eval(*e.object));
  return get_attr(rt_, object, e.name);
}

Result<Value> Interpreter::evaluate(const ItemExpr& e) {
  COLIBRI_ASSIGN(const Value object, eval(*e.object));
  COLIBRI_ASSIGN(const Value index, eval(*e.index));
  return get_item(rt_, object, index);
}

Result<Value> Interpreter::evaluate(const SliceExpr& e) {
  COLIBRI_ASSIGN(const Value object, eval(*e.object));
  COLIBRI_ASSIGN(const Value start, eval_optional(e.start));
  COLIBRI_ASSIGN(const Value stop, eval_optional(e.stop));
  COLIBRI_ASSIGN(const Value step, eval_optional(e.step));
  return get_slice(rt_, object, start, stop, step);
}

Result<Value> Interpreter::evaluate(const CallExpr& e) {
  COLIBRI_ASSIGN(const Value callee, eval(*e.callee));
  COLIBRI_ASSIGN(Args args, eval_args(e.args));
  return call(callee, std::move(args));
}

Result<Value> Interpreter::evaluate(const FilterExpr& e) {
  Value input = block_text_;
  if (e.input != nullptr) {
    COLIBRI_ASSIGN(input, eval(*e.input));
  }
  if (e.builtin == nullptr) return rt_.fail({"no filter named '", e.name, "'"});
  COLIBRI_ASSIGN(const Args args, eval_args(e.args));
  return invoke(rt_, *e.builtin, input, args);
}

Result<Value> Interpreter::evaluate(const TestExpr& e) {
  COLIBRI_ASSIGN(const Value input, eval(*e.input));
  if (e.builtin == nullptr) return rt_.fail({"no test named '", e.name, "'"});
  COLIBRI_ASSIGN(const Args args, eval_args(e.args));
  return invoke(rt_, *e.builtin, input, args);
}

// --- calls ---

Result<Args> Interpreter::eval_args(const ArgExprs& exprs) {
  Args args;
  args.positional.reserve(exprs.positional.size());
  for (const ExprPtr& expr : exprs.positional) {
    COLIBRI_ASSIGN(const Value value, eval(*expr));
    args.positional.push_back(value);
  }
  for (const auto& [name, expr] : exprs.named) {
    COLIBRI_ASSIGN(const Value value, eval(*expr));
    args.named.push_back({name, value});
  }
  if (exprs.star != nullptr) {
    COLIBRI_ASSIGN(const Value value, eval(*exprs.star));
    COLIBRI_ASSIGN(const List* items, items_of(rt_, value));
    COLIBRI_TRY(rt_.step_items(items->size));
    args.positional.insert(args.positional.end(), items->items, items->items + items->size);
  }
  if (exprs.star_star != nullptr) {
    COLIBRI_ASSIGN(const Value value, eval(*exprs.star_star));
    COLIBRI_TRY(add_named(args, value));
  }
  return args;
}

Status Interpreter::add_named(Args& args, const Value& dict) const {
  if (!dict.is(Kind::kDict)) return unsupported(rt_, "behind **", dict);
  for (const DictEntry& entry : std::span(dict.as_dict().entries, dict.as_dict().size)) {
    if (!entry.key.is_string()) return unsupported(rt_, "as the name of an argument", entry.key);
    args.named.push_back({entry.key.as_string(), entry.value});
  }
  return {};
}

Result<Value> Interpreter::call(const Value& callee, Args args) {
  switch (callee.kind()) {
    case Kind::kFunction:
      return invoke(rt_, callee.as_function(), Value::none(), args);
    case Kind::kMethod:
      return invoke(rt_, *callee.as_method().builtin, callee.as_method().self, args);
    case Kind::kMacro:
      return call_macro(callee.as_macro(), std::move(args));
    case Kind::kLoop:
      return call_loop(callee.as_loop(), args);
    case Kind::kJoiner: {
      Joiner& joiner = callee.as_joiner();
      return Value::string(std::exchange(joiner.used, true) ? joiner.separator : std::string_view());
    }
    default:
      return unsupported(rt_, "as a function", callee);
  }
}

Result<Value> Interpreter::call_macro(const Macro& macro, Args args) {
  const MacroDef& def = *macro.def;
  if (++calls_ > rt_.options.max_depth) {
    return rt_.fail({"macro ", def.name, ": calls nested deeper than ", std::to_string(rt_.options.max_depth)});
  }
  const int line = rt_.line;
  Frame* const caller = std::exchange(frame_, new_frame(*def.scope->function, macro.closure));
  COLIBRI_TRY(bind(def, args));
  Flow flow = Flow::kNormal;
  COLIBRI_ASSIGN(const Value text, capture(def.body, flow));
  frame_ = caller;
  rt_.line = line;
  --calls_;
  return text;
}

// Fills the new frame: positional arguments, named ones, then caller, kwargs and varargs if the body reads them, and
// the defaults, which may read all of these.
Status Interpreter::bind(const MacroDef& def, Args& args) {
  const size_t positional = std::min(args.positional.size(), def.params.size());
  for (size_t i = 0; i < positional; ++i) variable(*def.params[i].name) = args.positional[i];
  for (size_t i = positional; i < def.params.size(); ++i) {
    variable(*def.params[i].name) = take_named(args, def.params[i].name->name);
  }
  if (def.caller != nullptr) {
    const Value caller = take_named(args, "caller");
    variable(*def.caller) = caller.is_missing() ? Value::undefined("no caller defined") : caller;
  }
  if (def.kwargs != nullptr) {
    DictBuilder kwargs(rt_.heap);
    for (const NamedArg& arg : args.named) kwargs.set(Value::string(arg.name), arg.value);
    variable(*def.kwargs) = kwargs.finish_dict();
  } else if (!args.named.empty()) {
    return rt_.fail({"macro ", def.name, " takes no argument '", args.named[0].name, "'"});
  }
  if (def.varargs != nullptr) {
    ListBuilder varargs(rt_.heap);
    for (size_t i = positional; i < args.positional.size(); ++i) varargs.push(args.positional[i]);
    variable(*def.varargs) = varargs.finish_tuple();
  } else if (args.positional.size() > def.params.size()) {
    return rt_.fail({"macro ", def.name, " takes at most ", std::to_string(def.params.size()), " arguments, ",
                     std::to_string(args.positional.size()), " were given"});
  }
  enter(*def.scope);
  for (const Param& param : def.params) {
    Value& slot = variable(*param.name);
    if (!slot.is_missing()) continue;
    if (param.fallback != nullptr) {
      COLIBRI_ASSIGN(slot, eval(*param.fallback));
    } else {
      slot = Value::undefined("a parameter of a macro was not given");
    }
  }
  return {};
}

Result<Value> Interpreter::call_loop(LoopState& loop, const Args& args) {
  if (loop.statement == nullptr) return rt_.fail("a loop must be marked 'recursive' to be called");
  if (args.positional.size() != 1 || !args.named.empty()) return rt_.fail("loop() takes one argument");
  if (++calls_ > rt_.options.max_depth) {
    return rt_.fail({"recursive loops nested deeper than ", std::to_string(rt_.options.max_depth)});
  }
  if (++nesting_ > kMaxNesting) return rt_.fail({"evaluation nested deeper than ", std::to_string(kMaxNesting)});
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  Frame* const caller = std::exchange(frame_, loop.closure);
  COLIBRI_TRY(run_loop(*loop.statement, args.positional[0], loop.depth0() + 1));
  frame_ = caller;
  out_ = outer;
  --nesting_;
  --calls_;
  TextBuilder copy(rt_.heap);
  copy.append(text);
  return copy.finish_string();
}

}  // namespace colibri::text::jinja

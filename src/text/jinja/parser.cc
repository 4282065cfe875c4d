#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/expr_parser.h"
#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

class StatementParser : public ExprParser {
 public:
  using ExprParser::ExprParser;

  Status run() {
    Scope* root = new_scope(nullptr, new_function(nullptr));
    const Outer outer = enter_scope(root);
    COLIBRI_ASSIGN(program().body, parse_body({}));
    leave_scope(outer);
    resolve(*root);
    program().root = root;
    return {};
  }

 private:
  using EndNames = std::initializer_list<std::string_view>;

  // What of the parser belongs to the scope around the one that is being parsed.
  struct Outer {
    Scope* scope;
    std::vector<NameEvent>* events;
    bool is_conditional;
  };

  Function* new_function(Function* parent) {
    program().functions.push_back({parent, 0});
    return &program().functions.back();
  }

  // A scope inside the current one; in the same function unless another is given.
  Scope* new_scope(Scope* parent, Function* function = nullptr) {
    program().scopes.emplace_back();
    Scope* scope = &program().scopes.back();
    scope->parent = parent;
    scope->function = function != nullptr ? function : parent->function;
    if (parent != nullptr) parent->children.push_back(scope);
    return scope;
  }

  Outer enter_scope(Scope* scope) {
    const Outer outer{scope_, names().events, names().is_conditional};
    scope_ = scope;
    names().events = &scope->events;
    names().is_conditional = false;
    return outer;
  }

  void leave_scope(const Outer& outer) {
    scope_ = outer.scope;
    names().events = outer.events;
    names().is_conditional = outer.is_conditional;
  }

  // A parameter of the current scope, declared before anything in it.
  const NameRef* declare_first(std::string_view name) {
    NameRef* ref = name_ref(name);
    names().events->insert(names().events->begin(), {NameEvent::Kind::kParam, false, ref});
    return ref;
  }

  // Whether the text since `mark` reads `name` before setting it.
  bool reads_since(size_t mark, std::string_view name) {
    const auto& uses = names().uses;
    const auto use = std::find_if(uses.begin() + static_cast<std::ptrdiff_t>(mark), uses.end(),
                                  [name](const NameLog::Use& u) { return u.name == name; });
    return use != uses.end() && use->is_load;
  }

  bool at_end_name(EndNames names) const {
    return std::any_of(names.begin(), names.end(), [this](std::string_view name) { return is_name(name); });
  }

  Status end_block() { return expect_only(TokenKind::kBlockEnd, "the end of the tag"); }

  // Statements up to a tag that starts with one of `ends` (its name is then current), or to the end of the template.
  Result<Block> parse_body(EndNames ends) {
    Block body;
    while (!is(TokenKind::kEnd)) {
      const Token token = take();
      if (token.kind == TokenKind::kData) {
        body.push_back({token.line, TextStmt{token.text}});
      } else if (token.kind == TokenKind::kVariableBegin) {
        COLIBRI_ASSIGN(ExprPtr value, parse_tuple(true, false));
        body.push_back({token.line, PrintStmt{std::move(value)}});
        COLIBRI_TRY(expect_only(TokenKind::kVariableEnd, "'}}'"));
      } else {
        if (at_end_name(ends)) return body;
        COLIBRI_TRY(parse_statement(body));
        COLIBRI_TRY(end_block());
      }
    }
    if (ends.size() > 0) return unexpected(concat({"{% ", *(ends.end() - 1), " %}"}));
    return body;
  }

  // A statement's body: the rest of its tag, statements, and the name that ends them (which is taken only if
  // `take_end`).
  Result<Block> parse_inner(EndNames ends, bool take_end = true) {
    take_if(TokenKind::kColon);
    COLIBRI_TRY(end_block());
    COLIBRI_TRY(enter());
    COLIBRI_ASSIGN(Block body, parse_body(ends));
    leave();
    if (take_end) take();
    return body;
  }

  Status parse_statement(Block& out) {
    using Parse = Status (StatementParser::*)(Stmt&);
    struct Statement {
      std::string_view name;
      Parse parse;
    };
    static constexpr Statement kStatements[] = {
        {"if", &StatementParser::parse_if},           {"for", &StatementParser::parse_for},
        {"set", &StatementParser::parse_set},         {"macro", &StatementParser::parse_macro},
        {"call", &StatementParser::parse_call_block}, {"filter", &StatementParser::parse_filter_block},
        {"with", &StatementParser::parse_with},       {"generation", &StatementParser::parse_generation},
        {"break", &StatementParser::parse_control},   {"continue", &StatementParser::parse_control},
    };
    if (!is(TokenKind::kName)) return unexpected("a tag name");
    if (is_name("print")) return parse_print(out);
    for (const Statement& statement : kStatements) {
      if (!is_name(statement.name)) continue;
      out.push_back({current().line, TextStmt{}});
      return (this->*statement.parse)(out.back());
    }
    return fail({"unknown tag '", current().text, "'"});
  }

  Status parse_print(Block& out) {
    const int line = take().line;
    while (!is(TokenKind::kBlockEnd)) {
      COLIBRI_ASSIGN(ExprPtr value, parse_expression());
      out.push_back({line, PrintStmt{std::move(value)}});
      if (!take_if(TokenKind::kComma)) break;
    }
    return {};
  }

  // --- targets ---

  // Names, tuples of them and, where allowed, NAME.attribute. Nothing is recorded: assign() does that in its turn.
  Result<Target> parse_target(bool with_namespace, std::string_view end_name = {}) {
    COLIBRI_ASSIGN(Target first, parse_target_item(with_namespace));
    if (!is(TokenKind::kComma)) return first;
    Target tuple;
    tuple.items.push_back(std::move(first));
    while (take_if(TokenKind::kComma)) {
      if (!is(TokenKind::kName) && !is(TokenKind::kLeftParen)) break;
      if (!end_name.empty() && is_name(end_name)) break;
      COLIBRI_ASSIGN(Target item, parse_target_item(with_namespace));
      tuple.items.push_back(std::move(item));
    }
    return tuple;
  }

  Result<Target> parse_target_item(bool with_namespace) {
    if (take_if(TokenKind::kLeftParen)) {
      COLIBRI_TRY(enter());
      COLIBRI_ASSIGN(Target inner, parse_target(with_namespace));
      leave();
      COLIBRI_TRY(expect_only(TokenKind::kRightParen, "')'"));
      return inner;
    }
    Target target;
    COLIBRI_ASSIGN(target.name, parse_target_name());
    if (with_namespace && take_if(TokenKind::kDot)) {
      COLIBRI_ASSIGN(const Token attribute, expect(TokenKind::kName, "a name"));
      target.attribute = attribute.text;
    }
    return target;
  }

  Result<NameRef*> parse_target_name() {
    constexpr std::string_view kConstants[] = {"true", "True", "false", "False", "none", "None"};
    COLIBRI_ASSIGN(const Token name, expect(TokenKind::kName, "a name to assign to"));
    for (const std::string_view constant : kConstants) {
      if (name.text == constant) return fail({"cannot assign to ", constant});
    }
    return name_ref(name.text);
  }

  // Records the names of a target, after everything that its value reads.
  void assign(const Target& target, NameEvent::Kind kind) {
    for (const Target& item : target.items) assign(item, kind);
    if (target.name == nullptr) return;
    record(target.attribute.empty() ? kind : NameEvent::Kind::kLoad, const_cast<NameRef*>(target.name));
  }

  // The same target with names of its own, for another scope.
  Target clone(const Target& target) {
    Target copy;
    copy.attribute = target.attribute;
    if (target.name != nullptr) copy.name = name_ref(target.name->name);
    for (const Target& item : target.items) copy.items.push_back(clone(item));
    return copy;
  }

  // --- statements; the current token is the tag's name ---

  Status parse_if(Stmt& out) {
    IfStmt statement;
    const bool was_conditional = names().is_conditional;
    bool has_else = false;
    do {
      take();
      COLIBRI_ASSIGN(ExprPtr test, parse_tuple(false, false));
      names().is_conditional = true;
      COLIBRI_ASSIGN(Block body, parse_inner({"elif", "else", "endif"}, false));
      statement.branches.emplace_back(std::move(test), std::move(body));
    } while (is_name("elif"));
    has_else = take().text == "else";
    if (has_else) {
      COLIBRI_ASSIGN(statement.otherwise, parse_inner({"endif"}));
    }
    names().is_conditional = was_conditional;
    out.node = std::move(statement);
    return {};
  }

  Status parse_for(Stmt& out) {
    take();
    ForStmt statement;
    COLIBRI_ASSIGN(statement.target, parse_target(false, "in"));
    if (!take_name_if("in")) return unexpected("'in'");
    COLIBRI_ASSIGN(statement.iterable, parse_tuple(false, false, "recursive"));
    Function* const outer_function = scope_->function;
    if (is_name("if")) COLIBRI_TRY(parse_for_test(statement));
    statement.is_recursive = take_name_if("recursive");
    Function* const function = statement.is_recursive ? new_function(outer_function) : outer_function;
    COLIBRI_TRY(parse_for_body(statement, function));
    if (take().text == "else") {
      Scope* scope = new_scope(scope_, function);
      statement.else_scope = scope;
      const Outer outer = enter_scope(scope);
      const int loop_depth = loop_depth_;
      if (statement.is_recursive) loop_depth_ = 0;  // a function of its own: no loop around
      COLIBRI_ASSIGN(statement.otherwise, parse_inner({"endfor"}));
      loop_depth_ = loop_depth;
      leave_scope(outer);
    }
    out.node = std::move(statement);
    return {};
  }

  // The test gets a frame of its own function: it runs between two iterations and may not disturb the body's variables.
  Status parse_for_test(ForStmt& statement) {
    take();
    Scope* scope = new_scope(scope_, new_function(scope_->function));
    statement.test_scope = scope;
    statement.test_target = clone(statement.target);
    const Outer outer = enter_scope(scope);
    assign(statement.test_target, NameEvent::Kind::kParam);
    COLIBRI_ASSIGN(statement.test, parse_expression());
    leave_scope(outer);
    return {};
  }

  Status parse_for_body(ForStmt& statement, Function* function) {
    Scope* scope = new_scope(scope_, function);
    statement.scope = scope;
    const Outer outer = enter_scope(scope);
    assign(statement.target, NameEvent::Kind::kParam);
    const size_t mark = names().uses.size();
    ++loop_depth_;
    COLIBRI_ASSIGN(statement.body, parse_inner({"else", "endfor"}, false));
    --loop_depth_;
    if (reads_since(mark, "loop")) statement.loop = declare_first("loop");
    leave_scope(outer);
    return {};
  }

  Status parse_set(Stmt& out) {
    take();
    COLIBRI_ASSIGN(Target target, parse_target(true));
    if (take_if(TokenKind::kAssign)) {
      COLIBRI_ASSIGN(ExprPtr value, parse_tuple(true, false));
      assign(target, NameEvent::Kind::kStore);
      out.node = SetStmt{std::move(target), std::move(value)};
      return {};
    }
    SetBlockStmt statement;
    assign(target, NameEvent::Kind::kStore);
    Scope* scope = new_scope(scope_);
    statement.scope = scope;
    const Outer outer = enter_scope(scope);
    COLIBRI_ASSIGN(statement.filter, parse_filters(nullptr, false));
    COLIBRI_ASSIGN(statement.body, parse_inner({"endset"}));
    leave_scope(outer);
    statement.target = std::move(target);
    out.node = std::move(statement);
    return {};
  }

  // --- functions ---

  // Parameters and defaults in parentheses. Defaults may read the parameters; their names are recorded behind them.
  Status parse_signature(MacroDef& def) {
    std::vector<NameEvent> defaults;
    std::vector<NameEvent>* const events = names().events;
    COLIBRI_TRY(expect_only(TokenKind::kLeftParen, "'('"));
    while (!is(TokenKind::kRightParen)) {
      COLIBRI_ASSIGN(NameRef * name, parse_target_name());
      record(NameEvent::Kind::kParam, name);
      Param param{name, nullptr};
      if (take_if(TokenKind::kAssign)) {
        names().events = &defaults;
        COLIBRI_ASSIGN(param.fallback, parse_expression());
        names().events = events;
      } else if (!def.params.empty() && def.params.back().fallback != nullptr) {
        return fail("a parameter without default behind one that has a default");
      }
      def.params.push_back(std::move(param));
      if (!take_if(TokenKind::kComma)) break;
    }
    names().events->insert(names().events->end(), defaults.begin(), defaults.end());
    return expect_only(TokenKind::kRightParen, "',' or ')'");
  }

  static bool has_param(const MacroDef& def, std::string_view name) {
    return std::any_of(def.params.begin(), def.params.end(), [name](const Param& p) { return p.name->name == name; });
  }

  // The body of a function whose scope is current, and the parameters that it has because it reads them.
  Status parse_function_body(MacroDef& def, std::string_view end) {
    const size_t mark = names().uses.size();
    const int loop_depth = std::exchange(loop_depth_, 0);
    COLIBRI_ASSIGN(def.body, parse_inner({end}));
    loop_depth_ = loop_depth;
    const auto declare_if_read = [&](std::string_view name) {
      return reads_since(mark, name) && !has_param(def, name) ? declare_first(name) : nullptr;
    };
    def.caller = declare_if_read("caller");
    def.kwargs = declare_if_read("kwargs");
    def.varargs = declare_if_read("varargs");
    return {};
  }

  Outer enter_function(MacroDef& def) {
    Scope* scope = new_scope(scope_, new_function(scope_->function));
    def.scope = scope;
    return enter_scope(scope);
  }

  Status parse_macro(Stmt& out) {
    take();
    auto def = std::make_unique<MacroDef>();
    COLIBRI_ASSIGN(NameRef * target, parse_target_name());
    def->name = target->name;
    record(NameEvent::Kind::kStore, target);
    const Outer outer = enter_function(*def);
    COLIBRI_TRY(parse_signature(*def));
    COLIBRI_TRY(parse_function_body(*def, "endmacro"));
    leave_scope(outer);
    out.node = MacroStmt{target, std::move(def)};
    return {};
  }

  Status parse_call_block(Stmt& out) {
    take();
    auto def = std::make_unique<MacroDef>();
    def->name = "caller";
    const Outer outer = enter_function(*def);
    if (is(TokenKind::kLeftParen)) COLIBRI_TRY(parse_signature(*def));
    const Outer inner{scope_, names().events, names().is_conditional};
    leave_scope(outer);
    COLIBRI_ASSIGN(ExprPtr call, parse_expression());
    if (!std::holds_alternative<CallExpr>(call->node)) return fail("expected a call");
    leave_scope(inner);
    COLIBRI_TRY(parse_function_body(*def, "endcall"));
    leave_scope(outer);
    out.node = CallBlockStmt{std::move(call), std::move(def)};
    return {};
  }

  Status parse_generation(Stmt& out) {
    take();
    auto def = std::make_unique<MacroDef>();
    def->name = "caller";
    const Outer outer = enter_function(*def);
    COLIBRI_TRY(parse_function_body(*def, "endgeneration"));
    leave_scope(outer);
    out.node = CallBlockStmt{nullptr, std::move(def)};
    return {};
  }

  // --- other blocks ---

  Status parse_filter_block(Stmt& out) {
    take();
    FilterBlockStmt statement;
    Scope* scope = new_scope(scope_);
    statement.scope = scope;
    const Outer outer = enter_scope(scope);
    std::vector<NameEvent> filter_events;  // read after the body has run
    names().events = &filter_events;
    COLIBRI_ASSIGN(statement.filter, parse_filters(nullptr, true));
    names().events = &scope->events;
    COLIBRI_ASSIGN(statement.body, parse_inner({"endfilter"}));
    names().events->insert(names().events->end(), filter_events.begin(), filter_events.end());
    leave_scope(outer);
    out.node = std::move(statement);
    return {};
  }

  Status parse_with(Stmt& out) {
    take();
    WithStmt statement;
    while (!is(TokenKind::kBlockEnd)) {
      COLIBRI_ASSIGN(Target target, parse_target_item(false));
      COLIBRI_TRY(expect_only(TokenKind::kAssign, "'='"));
      COLIBRI_ASSIGN(ExprPtr value, parse_expression());
      statement.bindings.emplace_back(std::move(target), std::move(value));
      if (!take_if(TokenKind::kComma)) break;
    }
    Scope* scope = new_scope(scope_);
    statement.scope = scope;
    const Outer outer = enter_scope(scope);
    for (const auto& binding : statement.bindings) assign(binding.first, NameEvent::Kind::kParam);
    COLIBRI_ASSIGN(statement.body, parse_inner({"endwith"}));
    leave_scope(outer);
    out.node = std::move(statement);
    return {};
  }

  Status parse_control(Stmt& out) {
    const Token token = take();
    if (loop_depth_ == 0) return fail({"'", token.text, "' outside a loop"});
    out.node = LoopControlStmt{token.text == "break"};
    return {};
  }

  Scope* scope_ = nullptr;
  int loop_depth_ = 0;  // loops of the current function around what is being parsed
};

}  // namespace

Result<std::unique_ptr<Program>> parse_program(std::string_view source, const std::string& name) {
  auto program = std::make_unique<Program>();
  program->name = name;
  if (!is_valid_utf8(source)) return syntax_error(name, 1, {"the template is not valid UTF-8"});
  program->source = normalize_newlines(source);
  COLIBRI_ASSIGN(std::vector<Token> tokens, tokenize(program->source, program->name, program->heap));
  COLIBRI_TRY(StatementParser(*program, std::move(tokens)).run());
  return program;
}

}  // namespace colibri::text::jinja

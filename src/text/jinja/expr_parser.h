// ExprParser: tokens -> expressions. The statement parser (parser.cc) derives from it.
//
// Loads of names are recorded in the scope that is current, in the order of the text.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace colibri::text::jinja {

class ExprParser {
 public:
  ExprParser(Program& program, std::vector<Token> tokens) : program_(program), tokens_(std::move(tokens)) {}

 protected:
  /// An expression; `with_condition` false: `a if b` is not one (the `if` belongs to the statement).
  Result<ExprPtr> parse_expression(bool with_condition = true);
  /// An expression or, when commas follow, a tuple. In parentheses it may be empty. Ends before the name `end_name`.
  Result<ExprPtr> parse_tuple(bool with_condition, bool in_parentheses, std::string_view end_name = {});
  Result<ExprPtr> parse_filters(ExprPtr input, bool starts_inline);

  // Tokens.
  const Token& current() const { return tokens_[next_]; }
  const Token& look() const { return tokens_[next_ + 1 < tokens_.size() ? next_ + 1 : next_]; }
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_name(std::string_view name) const { return is(TokenKind::kName) && current().text == name; }
  Token take();
  bool take_if(TokenKind kind);
  bool take_name_if(std::string_view name);
  Result<Token> expect(TokenKind kind, std::string_view what);
  Status expect_only(TokenKind kind, std::string_view what);  ///< like expect, when the token does not matter
  Error fail(Pieces message) const { return syntax_error(program_.name, current().line, message); }
  Error fail(std::string_view message) const { return fail({message}); }
  Error unexpected(std::string_view wanted) const;
  /// Error when nesting gets too deep.
  Status enter();
  void leave() { --depth_; }

  // Names.
  NameRef* name_ref(std::string_view name);
  void record(NameEvent::Kind kind, NameRef* ref);
  const NameRef* load(std::string_view name);

  Program& program() { return program_; }

  /// What is recorded of names, and where to.
  struct NameLog {
    std::vector<NameEvent>* events = nullptr;  // of the current scope, or put aside until their turn comes
    bool is_conditional = false;               // inside an if of the current scope
    struct Use {
      std::string_view name;
      bool is_load;
    };
    std::vector<Use> uses;  // every name so far
  };
  NameLog& names() { return names_; }

 private:
  Result<ExprPtr> make(int line, decltype(Expr::node) node) const;
  Result<ExprPtr> parse_condition();
  Result<ExprPtr> parse_or();
  Result<ExprPtr> parse_and();
  Result<ExprPtr> parse_not();
  Result<ExprPtr> parse_compare();
  Result<ExprPtr> parse_add();
  Result<ExprPtr> parse_concat();
  Result<ExprPtr> parse_multiply();
  Result<ExprPtr> parse_power();
  Result<ExprPtr> parse_operand() { return parse_unary(true); }
  Result<ExprPtr> parse_binary(Result<ExprPtr> (ExprParser::*operand)(),
                               std::span<const std::pair<TokenKind, BinaryOp>> ops);
  Result<ExprPtr> parse_unary(bool with_filters);
  Result<ExprPtr> parse_signed(UnaryOp op);
  Result<ExprPtr> parse_primary();
  Result<ExprPtr> parse_name();
  Result<ExprPtr> parse_string();
  Result<ExprPtr> parse_list();
  Result<ExprPtr> parse_dict();
  Result<ExprPtr> parse_postfix(ExprPtr node);
  Result<ExprPtr> parse_filter_chain(ExprPtr node);
  Result<ExprPtr> parse_attribute(ExprPtr object);
  Result<ExprPtr> parse_subscript(ExprPtr object);
  Result<ExprPtr> parse_slice(ExprPtr object, ExprPtr start, int line);
  Result<ExprPtr> parse_call(ExprPtr callee);
  Result<ExprPtr> parse_filter(ExprPtr input);
  Result<ExprPtr> parse_test(ExprPtr input);
  Result<std::string_view> parse_dotted_name();
  Result<ArgExprs> parse_args();
  Status parse_arg(ArgExprs& args);

  Program& program_;
  NameLog names_;
  std::vector<Token> tokens_;
  size_t next_ = 0;
  int depth_ = 0;
};

}  // namespace colibri::text::jinja

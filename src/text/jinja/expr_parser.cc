#include "text/jinja/expr_parser.h"

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/parser.h"

namespace colibri::text::jinja {
namespace {

constexpr std::pair<TokenKind, CompareOp> kCompareOps[] = {
    {TokenKind::kEq, CompareOp::kEq}, {TokenKind::kNe, CompareOp::kNe}, {TokenKind::kLt, CompareOp::kLt},
    {TokenKind::kLe, CompareOp::kLe}, {TokenKind::kGt, CompareOp::kGt}, {TokenKind::kGe, CompareOp::kGe},
};
constexpr std::pair<TokenKind, BinaryOp> kAddOps[] = {{TokenKind::kAdd, BinaryOp::kAdd},
                                                      {TokenKind::kSub, BinaryOp::kSub}};
constexpr std::pair<TokenKind, BinaryOp> kMultiplyOps[] = {{TokenKind::kMul, BinaryOp::kMul},
                                                           {TokenKind::kDiv, BinaryOp::kDiv},
                                                           {TokenKind::kFloorDiv, BinaryOp::kFloorDiv},
                                                           {TokenKind::kMod, BinaryOp::kMod}};
constexpr std::pair<TokenKind, BinaryOp> kPowerOps[] = {{TokenKind::kPow, BinaryOp::kPow}};

template <typename Op>
const Op* find_op(std::span<const std::pair<TokenKind, Op>> ops, TokenKind kind) {
  for (const auto& op : ops) {
    if (op.first == kind) return &op.second;
  }
  return nullptr;
}

// The depth of the deepest child of a node.
struct ChildDepth {
  int operator()(const ExprPtr& child) const { return child == nullptr ? 0 : child->depth; }
  int operator()(const std::vector<ExprPtr>& children) const {
    int depth = 0;
    for (const ExprPtr& child : children) depth = std::max(depth, (*this)(child));
    return depth;
  }
  template <typename... Children>
  int of(const Children&... children) const {
    return std::max({0, (*this)(children)...});
  }
  template <typename First>
  int of_seconds(const std::vector<std::pair<First, ExprPtr>>& pairs) const {
    int depth = 0;
    for (const auto& pair : pairs) depth = std::max(depth, (*this)(pair.second));
    return depth;
  }
  int operator()(const ArgExprs& args) const {
    return std::max(of(args.positional, args.star, args.star_star), of_seconds(args.named));
  }

  int operator()(const ConstExpr&) const { return 0; }
  int operator()(const NameExpr&) const { return 0; }
  int operator()(const ListExpr& e) const { return of(e.items); }
  int operator()(const DictExpr& e) const {
    int depth = of_seconds(e.entries);
    for (const auto& entry : e.entries) depth = std::max(depth, of(entry.first));
    return depth;
  }
  int operator()(const UnaryExpr& e) const { return of(e.operand); }
  int operator()(const BinaryExpr& e) const { return of(e.left, e.right); }
  int operator()(const LogicExpr& e) const { return of(e.left, e.right); }
  int operator()(const CompareExpr& e) const { return std::max(of(e.first), of_seconds(e.rest)); }
  int operator()(const ConcatExpr& e) const { return of(e.parts); }
  int operator()(const CondExpr& e) const { return of(e.test, e.then, e.otherwise); }
  int operator()(const AttrExpr& e) const { return of(e.object); }
  int operator()(const ItemExpr& e) const { return of(e.object, e.index); }
  int operator()(const SliceExpr& e) const { return of(e.object, e.start, e.stop, e.step); }
  int operator()(const CallExpr& e) const { return of(e.callee, e.args); }
  int operator()(const FilterExpr& e) const { return of(e.input, e.args); }
  int operator()(const TestExpr& e) const { return of(e.input, e.args); }
};

}  // namespace

// --- tokens and names ---

Token ExprParser::take() {
  const Token token = current();
  if (next_ + 1 < tokens_.size()) ++next_;
  return token;
}

bool ExprParser::take_if(TokenKind kind) {
  if (!is(kind)) return false;
  take();
  return true;
}

bool ExprParser::take_name_if(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

Result<Token> ExprParser::expect(TokenKind kind, std::string_view what) {
  if (!is(kind)) return unexpected(what);
  return take();
}

Status ExprParser::expect_only(TokenKind kind, std::string_view what) {
  if (!take_if(kind)) return unexpected(what);
  return {};
}

Error ExprParser::unexpected(std::string_view wanted) const {
  const std::string found =
      is(TokenKind::kEnd) ? "the end of the template" : concat({"'", current().text.substr(0, 40), "'"});
  return fail({"expected ", wanted, ", found ", found});
}

Status ExprParser::enter() {
  if (++depth_ > kMaxParseDepth) return fail({"nested deeper than ", std::to_string(kMaxParseDepth)});
  return {};
}

NameRef* ExprParser::name_ref(std::string_view name) {
  program_.names.push_back({name});
  return &program_.names.back();
}

void ExprParser::record(NameEvent::Kind kind, NameRef* ref) {
  names_.events->push_back({kind, names_.is_conditional, ref});
  names_.uses.push_back({ref->name, kind == NameEvent::Kind::kLoad});
}

const NameRef* ExprParser::load(std::string_view name) {
  NameRef* ref = name_ref(name);
  record(NameEvent::Kind::kLoad, ref);
  return ref;
}

Result<ExprPtr> ExprParser::make(int line, decltype(Expr::node) node) const {
  const int depth = std::visit(ChildDepth(), node) + 1;
  if (depth > kMaxExprDepth) return fail({"an expression of more than ", std::to_string(kMaxExprDepth), " levels"});
  auto expr = std::make_unique<Expr>();
  expr->line = line;
  expr->depth = depth;
  expr->node = std::move(node);
  return expr;
}

// --- operators, from the loosest to the tightest ---

Result<ExprPtr> ExprParser::parse_expression(bool with_condition) {
  COLIBRI_TRY(enter());
  Result<ExprPtr> result = with_condition ? parse_condition() : parse_or();
  leave();
  return result;
}

Result<ExprPtr> ExprParser::parse_condition() {
  COLIBRI_ASSIGN(ExprPtr value, parse_or());
  while (is_name("if")) {
    const int line = take().line;
    COLIBRI_ASSIGN(ExprPtr test, parse_or());
    ExprPtr otherwise;
    if (take_name_if("else")) {
      COLIBRI_ASSIGN(otherwise, parse_expression());
    }
    COLIBRI_ASSIGN(value, make(line, CondExpr{std::move(test), std::move(value), std::move(otherwise)}));
  }
  return value;
}

Result<ExprPtr> ExprParser::parse_or() {
  COLIBRI_ASSIGN(ExprPtr left, parse_and());
  while (is_name("or")) {
    const int line = take().line;
    COLIBRI_ASSIGN(ExprPtr right, parse_and());
    COLIBRI_ASSIGN(left, make(line, LogicExpr{false, std::move(left), std::move(right)}));
  }
  return left;
}

Result<ExprPtr> ExprParser::parse_and() {
  COLIBRI_ASSIGN(ExprPtr left, parse_not());
  while (is_name("and")) {
    const int line = take().line;
    COLIBRI_ASSIGN(ExprPtr right, parse_not());
    COLIBRI_ASSIGN(left, make(line, LogicExpr{true, std::move(left), std::move(right)}));
  }
  return left;
}

Result<ExprPtr> ExprParser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const int line = take().line;
  COLIBRI_TRY(enter());
  COLIBRI_ASSIGN(ExprPtr operand, parse_not());
  leave();
  return make(line, UnaryExpr{UnaryOp::kNot, std::move(operand)});
}

Result<ExprPtr> ExprParser::parse_compare() {
  COLIBRI_ASSIGN(ExprPtr first, parse_add());
  const int line = current().line;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
  while (true) {
    CompareOp op = CompareOp::kIn;
    if (const CompareOp* symbol = find_op<CompareOp>(kCompareOps, current().kind)) {
      op = *symbol;
    } else if (is_name("not") && look().kind == TokenKind::kName && look().text == "in") {
      take();
      op = CompareOp::kNotIn;
    } else if (!is_name("in")) {
      break;
    }
    take();
    COLIBRI_ASSIGN(ExprPtr operand, parse_add());
    rest.emplace_back(op, std::move(operand));
  }
  if (rest.empty()) return first;
  return make(line, CompareExpr{std::move(first), std::move(rest)});
}

Result<ExprPtr> ExprParser::parse_binary(Result<ExprPtr> (ExprParser::*operand)(),
                                         std::span<const std::pair<TokenKind, BinaryOp>> ops) {
  COLIBRI_ASSIGN(ExprPtr left, (this->*operand)());
  while (const BinaryOp* op = find_op(ops, current().kind)) {
    const int line = take().line;
    COLIBRI_ASSIGN(ExprPtr right, (this->*operand)());
    COLIBRI_ASSIGN(left, make(line, BinaryExpr{*op, std::move(left), std::move(right)}));
  }
  return left;
}

Result<ExprPtr> ExprParser::parse_add() { return parse_binary(&ExprParser::parse_concat, kAddOps); }

Result<ExprPtr> ExprParser::parse_concat() {
  const int line = current().line;
  std::vector<ExprPtr> parts;
  do {
    COLIBRI_ASSIGN(ExprPtr part, parse_multiply());
    parts.push_back(std::move(part));
  } while (take_if(TokenKind::kTilde));
  if (parts.size() == 1) return std::move(parts[0]);
  return make(line, ConcatExpr{std::move(parts)});
}

Result<ExprPtr> ExprParser::parse_multiply() { return parse_binary(&ExprParser::parse_power, kMultiplyOps); }

// Unlike Python's, jinja's ** is left associative.
Result<ExprPtr> ExprParser::parse_power() { return parse_binary(&ExprParser::parse_operand, kPowerOps); }

Result<ExprPtr> ExprParser::parse_unary(bool with_filters) {
  const bool is_minus = is(TokenKind::kSub);
  const bool is_signed = is_minus || is(TokenKind::kAdd);
  COLIBRI_ASSIGN(ExprPtr node,
                 is_signed ? parse_signed(is_minus ? UnaryOp::kNegate : UnaryOp::kPlus) : parse_primary());
  COLIBRI_ASSIGN(node, parse_postfix(std::move(node)));
  if (with_filters) return parse_filter_chain(std::move(node));
  return node;
}

Result<ExprPtr> ExprParser::parse_signed(UnaryOp op) {
  const int line = take().line;
  COLIBRI_TRY(enter());
  COLIBRI_ASSIGN(ExprPtr operand, parse_unary(false));
  leave();
  return make(line, UnaryExpr{op, std::move(operand)});
}

// --- primaries ---

Result<ExprPtr> ExprParser::parse_primary() {
  switch (current().kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kLeftBracket:
      return parse_list();
    case TokenKind::kLeftBrace:
      return parse_dict();
    case TokenKind::kInteger: {
      const Token token = take();
      return make(token.line, ConstExpr{Value::integer(token.integer)});
    }
    case TokenKind::kFloat: {
      const Token token = take();
      return make(token.line, ConstExpr{Value::real(token.real)});
    }
    case TokenKind::kLeftParen: {
      take();
      COLIBRI_ASSIGN(ExprPtr inner, parse_tuple(true, true));
      COLIBRI_TRY(expect_only(TokenKind::kRightParen, "')'"));
      return inner;
    }
    default:
      return unexpected("an expression");
  }
}

Result<ExprPtr> ExprParser::parse_name() {
  const Token token = take();
  const std::string_view name = token.text;
  if (name == "true" || name == "True") return make(token.line, ConstExpr{Value::boolean(true)});
  if (name == "false" || name == "False") return make(token.line, ConstExpr{Value::boolean(false)});
  if (name == "none" || name == "None") return make(token.line, ConstExpr{Value::none()});
  return make(token.line, NameExpr{load(name)});
}

// Strings that stand next to each other are one.
Result<ExprPtr> ExprParser::parse_string() {
  const Token first = take();
  if (!is(TokenKind::kString)) return make(first.line, ConstExpr{Value::string(first.text)});
  std::string text(first.text);
  while (is(TokenKind::kString)) text += take().text;
  return make(first.line, ConstExpr{Value::string(program_.heap.copy(text))});
}

Result<ExprPtr> ExprParser::parse_tuple(bool with_condition, bool in_parentheses, std::string_view end_name) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    const bool at_end = is(TokenKind::kVariableEnd) || is(TokenKind::kBlockEnd) || is(TokenKind::kRightParen) ||
                        (!end_name.empty() && is_name(end_name));
    if (at_end) break;
    COLIBRI_ASSIGN(ExprPtr item, parse_expression(with_condition));
    items.push_back(std::move(item));
    if (!take_if(TokenKind::kComma)) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !in_parentheses) return unexpected("an expression");
  return make(line, ListExpr{std::move(items), true});
}

Result<ExprPtr> ExprParser::parse_list() {
  const int line = take().line;
  std::vector<ExprPtr> items;
  while (!is(TokenKind::kRightBracket)) {
    COLIBRI_ASSIGN(ExprPtr item, parse_expression());
    items.push_back(std::move(item));
    if (!take_if(TokenKind::kComma)) break;
  }
  COLIBRI_TRY(expect_only(TokenKind::kRightBracket, "',' or ']'"));
  return make(line, ListExpr{std::move(items), false});
}

Result<ExprPtr> ExprParser::parse_dict() {
  const int line = take().line;
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
  while (!is(TokenKind::kRightBrace)) {
    COLIBRI_ASSIGN(ExprPtr key, parse_expression());
    COLIBRI_TRY(expect_only(TokenKind::kColon, "':'"));
    COLIBRI_ASSIGN(ExprPtr value, parse_expression());
    entries.emplace_back(std::move(key), std::move(value));
    if (!take_if(TokenKind::kComma)) break;
  }
  COLIBRI_TRY(expect_only(TokenKind::kRightBrace, "',' or '}'"));
  return make(line, DictExpr{std::move(entries)});
}

// --- what follows a primary ---

Result<ExprPtr> ExprParser::parse_postfix(ExprPtr node) {
  while (true) {
    if (is(TokenKind::kDot)) {
      COLIBRI_ASSIGN(node, parse_attribute(std::move(node)));
    } else if (is(TokenKind::kLeftBracket)) {
      COLIBRI_ASSIGN(node, parse_subscript(std::move(node)));
    } else if (is(TokenKind::kLeftParen)) {
      COLIBRI_ASSIGN(node, parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> ExprParser::parse_filter_chain(ExprPtr node) {
  while (true) {
    if (is(TokenKind::kPipe)) {
      COLIBRI_ASSIGN(node, parse_filters(std::move(node), false));
    } else if (is_name("is")) {
      COLIBRI_ASSIGN(node, parse_test(std::move(node)));
    } else if (is(TokenKind::kLeftParen)) {
      COLIBRI_ASSIGN(node, parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> ExprParser::parse_attribute(ExprPtr object) {
  const int line = take().line;
  if (is(TokenKind::kInteger)) {
    COLIBRI_ASSIGN(ExprPtr index, parse_primary());
    return make(line, ItemExpr{std::move(object), std::move(index)});
  }
  COLIBRI_ASSIGN(const Token name, expect(TokenKind::kName, "a name or number after '.'"));
  return make(line, AttrExpr{std::move(object), name.text});
}

Result<ExprPtr> ExprParser::parse_subscript(ExprPtr object) {
  const int line = take().line;
  if (is(TokenKind::kColon)) return parse_slice(std::move(object), nullptr, line);
  std::vector<ExprPtr> indices;
  do {
    COLIBRI_ASSIGN(ExprPtr index, parse_expression());
    indices.push_back(std::move(index));
    if (indices.size() == 1 && is(TokenKind::kColon))
      return parse_slice(std::move(object), std::move(indices[0]), line);
  } while (take_if(TokenKind::kComma) && !is(TokenKind::kRightBracket));
  COLIBRI_TRY(expect_only(TokenKind::kRightBracket, "']'"));
  if (indices.size() == 1) return make(line, ItemExpr{std::move(object), std::move(indices[0])});
  COLIBRI_ASSIGN(ExprPtr index, make(line, ListExpr{std::move(indices), true}));
  return make(line, ItemExpr{std::move(object), std::move(index)});
}

// The current token is the first colon.
Result<ExprPtr> ExprParser::parse_slice(ExprPtr object, ExprPtr start, int line) {
  ExprPtr bounds[2];  // stop, step
  for (ExprPtr& bound : bounds) {
    if (!take_if(TokenKind::kColon)) break;
    if (is(TokenKind::kColon) || is(TokenKind::kRightBracket)) continue;
    COLIBRI_ASSIGN(bound, parse_expression());
  }
  COLIBRI_TRY(expect_only(TokenKind::kRightBracket, "']'"));
  return make(line, SliceExpr{std::move(object), std::move(start), std::move(bounds[0]), std::move(bounds[1])});
}

Result<ExprPtr> ExprParser::parse_call(ExprPtr callee) {
  const int line = current().line;
  COLIBRI_ASSIGN(ArgExprs args, parse_args());
  return make(line, CallExpr{std::move(callee), std::move(args)});
}

Result<ArgExprs> ExprParser::parse_args() {
  COLIBRI_TRY(expect_only(TokenKind::kLeftParen, "'('"));
  ArgExprs args;
  while (!is(TokenKind::kRightParen)) {
    COLIBRI_TRY(parse_arg(args));
    if (!take_if(TokenKind::kComma)) break;
  }
  COLIBRI_TRY(expect_only(TokenKind::kRightParen, "',' or ')'"));
  return args;
}

Status ExprParser::parse_arg(ArgExprs& args) {
  const auto misplaced = [this] { return fail("this argument may not stand behind the one before it"); };
  if (take_if(TokenKind::kMul)) {
    if (args.star || args.star_star) return misplaced();
    COLIBRI_ASSIGN(args.star, parse_expression());
  } else if (take_if(TokenKind::kPow)) {
    if (args.star_star) return misplaced();
    COLIBRI_ASSIGN(args.star_star, parse_expression());
  } else if (is(TokenKind::kName) && look().kind == TokenKind::kAssign) {
    if (args.star_star) return misplaced();
    const std::string_view name = take().text;
    take();
    COLIBRI_ASSIGN(ExprPtr value, parse_expression());
    args.named.emplace_back(name, std::move(value));
  } else {
    if (args.star || args.star_star || !args.named.empty()) return misplaced();
    COLIBRI_ASSIGN(ExprPtr value, parse_expression());
    args.positional.push_back(std::move(value));
  }
  return {};
}

// --- filters and tests ---

Result<std::string_view> ExprParser::parse_dotted_name() {
  COLIBRI_ASSIGN(const Token first, expect(TokenKind::kName, "a name"));
  if (!is(TokenKind::kDot)) return first.text;
  std::string name(first.text);
  while (take_if(TokenKind::kDot)) {
    COLIBRI_ASSIGN(const Token part, expect(TokenKind::kName, "a name"));
    name.append(".").append(part.text);
  }
  return program_.heap.copy(name);
}

Result<ExprPtr> ExprParser::parse_filters(ExprPtr input, bool starts_inline) {
  if (starts_inline) {
    COLIBRI_ASSIGN(input, parse_filter(std::move(input)));
  }
  while (take_if(TokenKind::kPipe)) {
    COLIBRI_ASSIGN(input, parse_filter(std::move(input)));
  }
  return input;
}

Result<ExprPtr> ExprParser::parse_filter(ExprPtr input) {
  const int line = current().line;
  FilterExpr filter{std::move(input), {}, nullptr, {}};
  COLIBRI_ASSIGN(filter.name, parse_dotted_name());
  filter.builtin = find_filter(filter.name);
  if (is(TokenKind::kLeftParen)) {
    COLIBRI_ASSIGN(filter.args, parse_args());
  }
  return make(line, std::move(filter));
}

// `x is name`, `x is not name`, with arguments in parentheses or one behind the name: `x is divisibleby 3`.
Result<ExprPtr> ExprParser::parse_test(ExprPtr input) {
  const int line = take().line;
  const bool negated = take_name_if("not");
  TestExpr test{std::move(input), {}, nullptr, {}};
  COLIBRI_ASSIGN(test.name, parse_dotted_name());
  test.builtin = find_test(test.name);
  const TokenKind next = current().kind;
  const bool starts_argument = next == TokenKind::kName || next == TokenKind::kString || next == TokenKind::kInteger ||
                               next == TokenKind::kFloat || next == TokenKind::kLeftBracket ||
                               next == TokenKind::kLeftBrace;
  if (next == TokenKind::kLeftParen) {
    COLIBRI_ASSIGN(test.args, parse_args());
  } else if (starts_argument && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) return fail("tests cannot be chained with 'is'");
    COLIBRI_TRY(enter());
    COLIBRI_ASSIGN(ExprPtr argument, parse_primary());
    COLIBRI_ASSIGN(argument, parse_postfix(std::move(argument)));
    leave();
    test.args.positional.push_back(std::move(argument));
  }
  COLIBRI_ASSIGN(ExprPtr node, make(line, std::move(test)));
  if (!negated) return node;
  return make(line, UnaryExpr{UnaryOp::kNot, std::move(node)});
}

}  // namespace colibri::text::jinja

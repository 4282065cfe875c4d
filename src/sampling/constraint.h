// Constraint: what an answer must look like, and ConstraintState: which tokens may come next in one answer.
//
// A constraint is compiled from JSON (docs/constraints.md) when a request is submitted. While a sequence runs, the
// engine asks its state for the allowed tokens before it samples and tells it the sampled token afterwards. Matching is
// on bytes, so tokens may cut characters and cross the parts of a constraint. Every allowed token can be continued to a
// whole answer; end-of-text tokens are allowed exactly where the answer is whole.
// Ownership: a Constraint is a value over shared immutable tables; a state keeps them, and borrows the TokenTexts.
// Thread-safety: a Constraint may be used by several threads; a state belongs to one sequence, one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "sampling/token_mask.h"
#include "sampling/token_texts.h"

namespace colibri::sampling {

class Constraint {
 public:
  /// kUsage names the place in the document that is wrong or not supported; kUnsupported: a tokenizer that cannot spell
  /// every text. Without tokens it is only checked, and must not be used for a state. Bounded in time and memory.
  static Result<Constraint> compile(const Json& document, const TokenTexts& tokens = {});
  /// The same for the text of a document.
  static Result<Constraint> parse(std::string_view document, const TokenTexts& tokens = {});

 private:
  friend class ConstraintState;
  struct Tables;
  explicit Constraint(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  std::shared_ptr<const Tables> tables_;
};

class ConstraintState {
 public:
  /// REQUIRES: `tokens` are those that the constraint was compiled for, and outlive the state.
  ConstraintState(Constraint constraint, const TokenTexts& tokens);
  ConstraintState(ConstraintState&&) noexcept;
  ConstraintState& operator=(ConstraintState&&) noexcept;
  ~ConstraintState();

  /// The tokens that may come next; valid until the next call. Never empty unless the answer has ended.
  /// Allocates nothing once the state has seen as deep and as ambiguous an answer before; what it allocates until then
  /// is bounded (docs/constraints.md).
  const TokenMask& allowed();
  /// Goes on behind `token`. False, and nothing changes, when it is not allowed.
  bool accept(TokenId token);
  /// Whether the answer so far is whole (it may be possible to go on).
  bool complete() const;
  /// Whether nothing but the end may come: the sequence can be finished without another step.
  bool must_end() const;

  /// Memory that a state takes at first, beside its constraint.
  static int64_t bytes(const TokenTexts& tokens);

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace colibri::sampling

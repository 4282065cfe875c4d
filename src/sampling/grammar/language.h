// The constraint language: what an answer must look like, as JSON (docs/constraints.md), made into an automaton.
//
// Called by Constraint::compile. Thread-safety: a free function.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "sampling/grammar/automaton.h"
#include "sampling/token_texts.h"

namespace colibri::sampling::grammar {

/// kUsage names the place in the document and what is wrong there.
Result<Automaton> compile_document(const Json& document, const TokenTexts& tokens);

}  // namespace colibri::sampling::grammar

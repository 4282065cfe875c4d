// Parser: a template's source -> Program.
//
// Grammar and precedence are jinja2's. Nesting is bounded while parsing, so that nothing that later walks the tree can
// run out of stack. Errors are kInvalidModel and name the template and the line. Thread-safety: pure function.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/ast.h"

namespace colibri::text::jinja {

constexpr int kMaxParseDepth = 150;  ///< of brackets, blocks and prefix operators inside each other
constexpr int kMaxExprDepth = 500;   ///< of a + b + c ..., which nests without brackets

Result<std::unique_ptr<Program>> parse_program(std::string_view source, const std::string& name);

}  // namespace colibri::text::jinja

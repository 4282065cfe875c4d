#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

#include "base/check.h"
#include "text/oniguruma.h"
#include "text/unicode_additions.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

// JIT code runs on 32 KiB of the caller's stack; a pattern that saves state per character of a long run needs more.
constexpr size_t kFirstStack = size_t{64} << 10, kLargestStack = size_t{256} << 20;

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};

std::string message_of(int code) {
  PCRE2_UCHAR buffer[160] = {};
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

Error compile_error(std::string_view pattern, std::string_view why) {
  std::string message = "regular expression \"";
  message.append(pattern.substr(0, 400)).append("\": ").append(why);
  return {ErrorCode::kUnsupported, std::move(message)};
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, Free> code;
  bool jit = false;
  std::shared_ptr<const Code>
      full;  // for texts with characters that PCRE2 does not know; null: this one does for them too
};

struct RegexWorkspace::State {
  std::unique_ptr<pcre2_match_data, Free> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Free> context;  // null until the large stack is wanted
  std::unique_ptr<pcre2_jit_stack, Free> stack;

  void want_large_stack() {
    context.reset(pcre2_match_context_create(nullptr));
    stack.reset(pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr));
    if (context && stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

RegexWorkspace::RegexWorkspace() : state_(std::make_unique<State>()) { COLIBRI_CHECK(state_->data != nullptr); }
RegexWorkspace::~RegexWorkspace() = default;

namespace {

Result<std::shared_ptr<Regex::Code>> compile_translated(std::string_view pattern, const std::string& text) {
  const std::unique_ptr<pcre2_compile_context, Free> context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Regex::Code>();
  code->code.reset(pcre2_compile(units(text), text.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C,
                                 &error, &offset, context.get()));
  if (!code->code) return compile_error(pattern, message_of(error));
  // Where the system allows no JIT (no executable memory), the interpreter gives the same matches.
  code->jit = pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return code;
}

}  // namespace

Result<Regex> Regex::compile(std::string_view pattern) {
  if (!is_valid_utf8(pattern)) return compile_error("", "the pattern is no UTF-8");
  const auto fast = oniguruma_to_pcre2(pattern, false), full = oniguruma_to_pcre2(pattern, true);
  if (!fast.ok()) return compile_error(pattern, fast.error().message);
  COLIBRI_ASSIGN(auto code, compile_translated(pattern, fast.value()));
  if (full.value() != fast.value()) {
    COLIBRI_ASSIGN(code->full, compile_translated(pattern, full.value()));
  }
  return Regex(std::move(code));
}

RegexSearch::RegexSearch(const Regex& regex, std::string_view text, RegexWorkspace& workspace)
    : code_(regex.code_->full && has_unicode_addition(text) ? *regex.code_->full : *regex.code_),
      text_(text),
      workspace_(workspace.state()) {}

bool RegexSearch::match_at(size_t start, Regex::Match& match) {
  const pcre2_code* code = code_.code.get();
  pcre2_match_data* data = workspace_.data.get();
  int rc = PCRE2_ERROR_JIT_STACKLIMIT;
  if (code_.jit) {
    rc = pcre2_jit_match(code, units(text_), text_.size(), start, 0, data, workspace_.context.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !workspace_.context) {
      workspace_.want_large_stack();
      rc = pcre2_jit_match(code, units(text_), text_.size(), start, 0, data, workspace_.context.get());
    }
  }
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
    rc = pcre2_match(code, units(text_), text_.size(), start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, nullptr);
  }
  if (rc < 0) return false;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data);
  match = {ends[0], ends[1]};
  return true;
}

bool RegexSearch::next(Regex::Match& match) {
  while (position_ <= text_.size()) {
    if (!match_at(position_, match)) break;
    if (match.begin != match.end || match.end != last_end_) {
      position_ = last_end_ = match.end;
      return true;
    }
    if (position_ == text_.size()) break;
    next_character(text_, position_);
  }
  position_ = text_.size() + 1;
  return false;
}

}  // namespace colibri::text

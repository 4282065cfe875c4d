// ChatTemplate: messages -> prompt text, by our interpreter of the Jinja subset that published chat templates use.
//
// The environment is that of transformers: trim_blocks, lstrip_blocks, loop controls, generation blocks, tojson without
// HTML escaping, raise_exception, strftime_now, an immutable sandbox. Templates come with model files and are hostile:
// depth, steps, memory and output are bounded, nothing outside the given context is reachable.
// Thread-safety: render() is const and may run in several threads.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/chat_template_options.h"

namespace colibri::text {

class ChatTemplate {
 public:
  /// kInvalidModel with line number on a syntax error, and beyond 4 MiB of source. `name` is for messages.
  static Result<ChatTemplate> parse(std::string_view source, const std::string& name);
  /// `context`: an object with messages, tools, add_generation_prompt, bos_token ... JSON null is Python's None
  /// (defined). A template that calls raise_exception gives kUsage with the template's own message; other failures give
  /// kFailed with the template's name and the line.
  Result<std::string> render(const Json& context, const RenderOptions& options) const;

  struct Program;

 private:
  explicit ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

}  // namespace colibri::text

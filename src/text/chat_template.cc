#include "text/chat_template.h"

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace colibri::text {

namespace {

constexpr size_t kMaxSourceBytes = size_t{4} << 20;  // published ones have some 10 KB

}  // namespace

struct ChatTemplate::Program {
  std::unique_ptr<const jinja::Program> parsed;
};

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const std::string& name) {
  if (source.size() > kMaxSourceBytes) {
    return Error{ErrorCode::kInvalidModel, "template " + name + " has " + std::to_string(source.size()) +
                                               " bytes, at most " + std::to_string(kMaxSourceBytes) + " are accepted"};
  }
  COLIBRI_ASSIGN(std::unique_ptr<jinja::Program> parsed, jinja::parse_program(source, name));
  return ChatTemplate(std::make_shared<const Program>(Program{std::move(parsed)}));
}

Result<std::string> ChatTemplate::render(const Json& context, const RenderOptions& options) const {
  return jinja::Interpreter(*program_->parsed, options).run(context);
}

}  // namespace colibri::text

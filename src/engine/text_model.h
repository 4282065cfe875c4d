// TextModel: a model's tokenizer and chat template, found wherever the model keeps them.
//
// Thread-safety: const functions may run in several threads.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "formats/catalog.h"
#include "text/answers/format.h"
#include "text/chat_messages.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace colibri::engine {

class TextModel {
 public:
  static constexpr const char* kNoTemplate = "the model has no chat template";

  /// `path`: a model or tokenizer folder, a .gguf file, a tokenizer's file (tokenizer.json, tekken.json,
  /// tokenizer.model, tiktoken.model, *.tiktoken, in this order of precedence in a folder); empty with a
  /// `template_file`. kInvalidModel when there is neither a tokenizer nor a template.
  static Result<TextModel> open(const std::string& path, const std::string& template_file);
  /// From a GGUF whose header is already read.
  static Result<TextModel> from_gguf(const formats::TensorCatalog& catalog);
  /// The tokenizer that belongs to a model whose catalog is open: in its metadata, else in its folder; nullopt when it
  /// came without one.
  static Result<std::optional<TextModel>> of_model(const std::string& path, const formats::TensorCatalog& catalog);
  /// From a folder; nullopt when it holds no tokenizer.
  static Result<std::optional<TextModel>> from_folder(const std::string& folder);

  const text::Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  bool has_template() const { return chat_template_.has_value(); }
  /// Why there is no template, or what is wrong with it; empty when it is fine.
  const std::string& template_problem() const { return template_problem_; }
  /// Where the tokenizer came from.
  const std::string& source() const { return source_; }

  /// Renders {"messages", "tools", "add_generation_prompt", "chat_template_kwargs", ...}, with the messages put as the
  /// template wants them; with "tool_choice": "none" the model is shown no tools. kUsage when the request is no object
  /// with messages, or the template refuses.
  Result<std::string> apply_template(const Json& request, int64_t now_seconds) const;
  /// How this model writes its answer to such a request.
  text::AnswerFormat answer_format(bool with_tools) const;

 private:
  struct LoadedTemplate {
    text::ChatTemplate chat;
    std::string source;
    text::MessageForm form;
  };
  static Result<LoadedTemplate> load_template(std::string_view source, const std::string& name);
  const LoadedTemplate& template_for(bool with_tools) const;
  static Result<TextModel> from_file(const std::string& path);
  static Result<TextModel> open_path(const std::string& path);
  static Result<TextModel> open_folder(const std::string& folder);
  Status add_template_files(const std::string& folder, const Json& tokenizer_config);
  void set_template(std::string_view source, const std::string& name);
  Status add_tool_template_file(const std::string& folder);
  void set_tool_template(const std::string* source, const std::string& name);
  void read_special_tokens(const Json& tokenizer_config);

  std::string source_;
  std::optional<text::Tokenizer> tokenizer_;
  std::optional<LoadedTemplate> chat_template_;
  std::optional<LoadedTemplate> tool_template_;  // for requests with tools; absent: the same
  std::string template_problem_ = kNoTemplate;
  Json special_tokens_{Json::Object{}};  // bos_token, eos_token ... as templates see them
};

/// "2026-02-03T04:05:06", a blank for the T allowed, seconds optional -> seconds since the epoch. kUsage otherwise.
Result<int64_t> parse_iso_time(std::string_view text);
/// The present, as civil time of the local zone.
int64_t local_now_seconds();

}  // namespace colibri::engine

#include "text/chat_messages.h"

#include <algorithm>
#include <array>

#include "text/answers/call_id.h"

namespace colibri::text {
namespace {

// --- asking a template ---

constexpr const char* kQuestion = R"({"messages": [{"role": "user", "content": "Hi"}],
  "tools": [{"type": "function", "function": {"name": "colibri_tool", "description": "Looks.", "parameters":
    {"type": "object", "properties": {"look": {"type": "string", "description": "At what."}}, "required": ["look"]}}}],
  "add_generation_prompt": true, "documents": null,
  "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"})";
constexpr const char* kCall =
    R"({"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "type": "function",
  "function": {"name": "colibri_tool", "arguments": {"colibri_key": "colibri_value"}}}]})";
constexpr const char* kResult =
    R"({"role": "tool", "tool_call_id": "abcdefghi", "name": "colibri_tool", "content": "Seen."})";
constexpr const char* kParts = R"([{"role": "user", "content": [{"type": "text", "text": "colibri_value"}]}])";

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string rendered(const ChatTemplate& chat_template, const Json& context) {
  RenderOptions options;
  options.max_steps = 1'000'000;
  options.max_output_bytes = 1 << 20;
  options.max_value_bytes = 16 << 20;
  const Result<std::string> text = chat_template.render(context, options);
  return text.ok() ? *text : std::string();
}

Json call_message(bool as_text, bool null_content) {
  Json message = parse_json(kCall).value();
  if (null_content) message.set("content", nullptr);
  Json& call = message.as_object().back().second.as_array()[0];
  Json& function = call.as_object().back().second;
  if (as_text) function.set("arguments", function.find("arguments")->dump());
  return message;
}

// Whether the call is in the text as the model would write it: not as Python prints a dict, not as a text in a text.
bool shows_call(std::string_view text) {
  return contains(text, "colibri_value") && !contains(text, "'colibri_key'") && !contains(text, "\\\"colibri_key");
}

bool renders_call(const ChatTemplate& chat_template, bool as_text, bool null_content) {
  Json context = parse_json(kQuestion).value();
  Json messages = *context.find("messages");
  messages.push_back(call_message(as_text, null_content)).push_back(parse_json(kResult).value());
  context.set("messages", std::move(messages));
  return shows_call(rendered(chat_template, context));
}

bool reads_parts(const ChatTemplate& chat_template) {
  Json context = parse_json(kQuestion).value();
  context.set("tools", nullptr).set("messages", parse_json(kParts).value());
  const std::string text = rendered(chat_template, context);
  return contains(text, "colibri_value") && !contains(text, "'type'") && !contains(text, "\"type\"");
}

bool names(std::string_view source, const std::string& word) {
  return contains(source, "'" + word + "'") || contains(source, '"' + word + '"') || contains(source, "." + word);
}

std::string reasoning_key_of(std::string_view source) {
  if (contains(source, "reasoning_content")) return "reasoning_content";
  for (const char* key : {"reasoning", "thinking", "thought"})
    if (names(source, key)) return key;
  return "reasoning_content";
}

// --- putting messages ---

std::string role_of(const Json& message) {
  const Json* role = message.find_value("role");
  return role != nullptr && role->is_string() ? role->as_string() : std::string();
}

bool is_text_part(const Json& part) {
  const Json* text = part.find_value("text");
  return part.is_string() || (text != nullptr && text->is_string());
}

void join_parts(Json& message) {
  const Json* content = message.find_value("content");
  if (content == nullptr || !content->is_array()) return;
  const Json::Array& parts = content->as_array();
  if (!std::all_of(parts.begin(), parts.end(), is_text_part)) return;
  std::string text;
  for (const Json& part : parts) text += part.is_string() ? part.as_string() : part.find("text")->as_string();
  message.set("content", std::move(text));
}

Json arguments_for(const Json& arguments, bool as_text) {
  if (as_text) return arguments.is_string() ? arguments : Json(arguments.dump());
  if (!arguments.is_string()) return arguments;
  if (arguments.as_string().empty()) return Json::Object{};
  Result<Json> parsed = parse_json(arguments.as_string());
  return parsed.ok() && parsed->is_object() ? *std::move(parsed) : arguments;
}

std::string nine_letters(const std::string& id) {
  return is_call_id(id, IdStyle::kNine) ? id : made_call_id(id, 0, IdStyle::kNine);
}

void put_id(Json& object, const char* key, const MessageForm& form) {
  const Json* id = object.find_value(key);
  if (form.nine_letter_ids && id != nullptr && id->is_string()) object.set(key, nine_letters(id->as_string()));
}

Json call_for(Json call, const MessageForm& form) {
  if (!call.is_object()) return call;
  put_id(call, "id", form);
  const Json* function = call.find_value("function");
  if (function == nullptr || !function->is_object()) return call;
  if (call.find("type") == nullptr) call.set("type", "function");
  Json put = *call.find("function");
  if (const Json* arguments = put.find("arguments"))
    put.set("arguments", arguments_for(*arguments, form.arguments_as_text));
  call.set("function", std::move(put));
  return call;
}

bool has_text(const Json& message) {
  const Json* content = message.find_value("content");
  return content != nullptr && *content != Json("");
}

void put_calls(Json& message, const MessageForm& form) {
  const Json* calls = message.find_value("tool_calls");
  if (calls == nullptr || !calls->is_array() || calls->as_array().empty()) return;
  Json::Array list;
  for (const Json& call : calls->as_array()) list.push_back(call_for(call, form));
  message.set("tool_calls", std::move(list));
  if (!has_text(message)) message.set("content", form.null_content ? Json() : Json(""));
}

// Some templates refuse a message with calls that has both a text and a reasoning under their own name for it.
void put_reasoning(Json& message, const MessageForm& form) {
  const Json* reasoning = message.find_value("reasoning_content");
  if (reasoning == nullptr) reasoning = message.find_value("reasoning");
  if (reasoning == nullptr || message.find(form.reasoning_key) != nullptr) return;
  const bool calls = message.find_value("tool_calls") != nullptr;
  if (form.reasoning_key == "thinking" && calls && has_text(message)) return;
  message.set(form.reasoning_key, Json(*reasoning));
}

Json message_for(Json message, const MessageForm& form) {
  if (!message.is_object()) return message;
  const std::string role = role_of(message);
  if (role == "developer" && !form.developer) message.set("role", "system");
  if (!form.parts) join_parts(message);
  if (role == "tool") put_id(message, "tool_call_id", form);
  if (role != "assistant") return message;
  if (form.calls) put_calls(message, form);
  put_reasoning(message, form);
  return message;
}

}  // namespace

MessageForm message_form_of(const ChatTemplate& chat_template, std::string_view source) {
  MessageForm form;
  for (const auto& [as_text, null_content] :
       std::array<std::pair<bool, bool>, 4>{{{false, false}, {false, true}, {true, false}, {true, true}}}) {
    if (form.calls || !renders_call(chat_template, as_text, null_content)) continue;
    form.calls = true;
    form.arguments_as_text = as_text;
    form.null_content = null_content;
  }
  form.parts = reads_parts(chat_template);
  form.developer = names(source, "developer");
  form.nine_letter_ids = contains(source, "|length != 9");
  form.reasoning_key = reasoning_key_of(source);
  return form;
}

Json messages_for_template(const Json& messages, const MessageForm& form) {
  if (!messages.is_array()) return messages;
  Json::Array list;
  list.reserve(messages.as_array().size());
  for (const Json& message : messages.as_array()) list.push_back(message_for(message, form));
  return list;
}

}  // namespace colibri::text

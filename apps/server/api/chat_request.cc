#include "chat_request.h"

#include "messages.h"

namespace colibri::server {
namespace {

// "none", "auto", "required", or {"type": "function", "function": {"name": NAME}} of a tool that was given.
void read_tool_choice(Fields& fields, json::object& out) {
  const json::value* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  const bool has_tools = out.contains("tools");
  if (choice->is_string()) {
    std::string word;
    if (!fields.choice("tool_choice", {"none", "auto", "required"}, word)) return;
    if (word == "required" && !has_tools) fields.fail("tool_choice", "\"required\" needs tools");
    out["tool_choice"] = word;
    return;
  }
  const json::object* object = fields.object("tool_choice");
  if (object == nullptr) return;
  Fields inner(*object, "tool_choice");
  std::string type, name;
  inner.choice("type", {"function"}, type);
  const json::object* function = inner.object("function");
  if (function == nullptr) inner.fail("function", "missing; {\"name\"}");
  Fields named(function != nullptr ? *function : *object, "tool_choice.function");
  if (function != nullptr && !named.text("name", name)) named.fail("name", "missing");
  inner.fail(named.error());
  if (!has_tools || !has_tool(out["tools"].get_array(), name))
    inner.fail("function", "no tool is called \"" + name.substr(0, 60) + "\"");
  fields.fail(inner.error());
  out["tool_choice"] = *choice;
}

void read_tools(Fields& fields, json::object& out) {
  if (const json::array* tools = fields.array("tools"); tools != nullptr && !tools->empty()) {
    fields.fail(check_tools(*tools));
    out["tools"] = *tools;
  }
  if (!fields.ok()) return;
  read_tool_choice(fields, out);
  bool parallel = true;
  if (fields.boolean("parallel_tool_calls", parallel)) out["parallel_tool_calls"] = parallel;
}

void read_template_variables(Fields& fields, json::object& out) {
  const json::object* variables = fields.object("chat_template_kwargs");
  if (variables == nullptr) return;
  for (const char* taken : {"messages", "tools", "add_generation_prompt", "chat_template", "bos_token", "eos_token"})
    if (variables->contains(taken))
      fields.fail("chat_template_kwargs", std::string("\"") + taken + "\" cannot be set here");
  out["chat_template_kwargs"] = *variables;
}

// The template's own variable, and for templates that only know a switch, the switch.
void read_reasoning_effort(Fields& fields, json::object& out) {
  std::string effort;
  if (!fields.choice("reasoning_effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"}, effort)) return;
  if (effort == "none") return default_template_variable(out, "enable_thinking", false);
  default_template_variable(out, "reasoning_effort", json::value(effort));
}

void read_logprobs(Fields& fields, GenerationOptions& options) {
  bool wanted = false;
  int64_t top = 0;
  fields.boolean("logprobs", wanted);
  const bool has_top = fields.integer("top_logprobs", 0, COLIBRI_MAX_TOP_LOGPROBS, top);
  if (has_top && !wanted) fields.fail("top_logprobs", "only allowed when logprobs is true");
  if (wanted) options.logprobs = top;
}

void refuse_what_chat_cannot(Fields& fields) {
  for (const char* name : {"functions", "function_call"}) fields.refuse(name, nullptr, "no longer in use; give tools");
  for (const char* name :
       {"audio", "prediction", "web_search_options", "mm_processor_kwargs", "chat_template", "best_of"})
    fields.refuse(name, nullptr, "not supported; leave it out");
  fields.refuse("modalities", json::array{"text"}, "only [\"text\"] is supported");
  fields.refuse("continue_final_message", false, "not supported; leave it out");
  fields.refuse("echo", false, "not supported in a chat; POST /v1/completions has it");
  fields.refuse("thinking_budget_tokens", -1, "not supported; leave it out");
  std::string format;
  fields.choice("reasoning_format", {"auto", "deepseek"}, format);
  fields.accept({"verbosity", "reasoning", "include_reasoning", "separate_reasoning", "add_special_tokens", "timeout"});
}

}  // namespace

std::optional<ApiError> expect_object(const json::value& body) {
  if (body.is_object()) return std::nullopt;
  return bad_request("", "the body must be a JSON object, not " + std::string(kind_of(body)));
}

void default_template_variable(json::object& template_request, std::string_view name, const json::value& value) {
  json::value& variables = template_request["chat_template_kwargs"];
  if (!variables.is_object()) variables.emplace_object();
  variables.get_object().emplace(json::string_view(name.data(), name.size()), value);
}

void read_template_members(Fields& fields, json::object& out) {
  const json::array* messages = fields.array("messages");
  if (messages == nullptr) return fields.fail("messages", "missing; an array of messages");
  json::array normal;
  fields.fail(normalize_messages(*messages, "messages", normal));
  out["messages"] = std::move(normal);
  read_tools(fields, out);
  read_template_variables(fields, out);
  read_reasoning_effort(fields, out);
  bool prompt = true;
  fields.boolean("add_generation_prompt", prompt);
  out["add_generation_prompt"] = prompt;
  if (const json::array* documents = fields.array("documents")) out["documents"] = *documents;
}

std::optional<ApiError> read_chat_request(const json::value& body, ChatRequest& out) {
  if (auto error = expect_object(body)) return error;
  Fields fields(body.get_object());
  read_template_members(fields, out.template_request);
  read_generation_options(fields, out.options);
  read_max_tokens(fields, 1, out.options);
  read_logprobs(fields, out.options);
  json::value format = read_response_format(fields);
  if (!format.is_null()) out.template_request["response_format"] = std::move(format);
  refuse_what_chat_cannot(fields);
  out.unknown = fields.unknown();
  return fields.error();
}

}  // namespace colibri::server

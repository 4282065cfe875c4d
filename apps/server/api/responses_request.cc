#include "responses_request.h"

#include "messages.h"

namespace colibri::server {
namespace {

// Calls and reasoning are items of their own; in a chat they belong to one message of the assistant.
json::object& assistant_message(json::array& messages) {
  const bool there = !messages.empty() && messages.back().at("role") == "assistant";
  if (!there) messages.push_back(json::object{{"role", "assistant"}, {"content", ""}});
  return messages.back().get_object();
}

void read_call_item(Fields& fields, json::array& out) {
  std::string id, name, arguments;
  if (!fields.text("call_id", id)) fields.fail("call_id", "missing");
  if (!fields.text("name", name)) fields.fail("name", "missing");
  fields.text("arguments", arguments);
  json::value& calls = assistant_message(out)["tool_calls"];
  if (!calls.is_array()) calls.emplace_array();
  calls.get_array().push_back(
      json::object{{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}});
}

void read_output_item(Fields& fields, json::array& out) {
  std::string id, output;
  if (!fields.text("call_id", id)) fields.fail("call_id", "missing");
  read_content(fields, "output", output);
  out.push_back(json::object{{"role", "tool"}, {"tool_call_id", id}, {"content", output}});
}

void read_reasoning_item(Fields& fields, json::array& out) {
  std::string text;
  const json::array* content = fields.array("content");
  for (size_t i = 0; content != nullptr && i < content->size(); ++i) {
    const json::object* part = (*content)[i].if_object();
    const json::value* piece = part != nullptr ? part->if_contains("text") : nullptr;
    if (piece != nullptr && piece->is_string()) text += view(piece->get_string());
  }
  // The message that it led to comes next.
  if (!text.empty()) out.push_back(json::object{{"role", "assistant"}, {"content", ""}, {"reasoning_content", text}});
}

void read_message_item(Fields& fields, json::array& out) {
  std::string role, content;
  if (!fields.choice("role", {"system", "developer", "user", "assistant"}, role)) fields.fail("role", "missing");
  if (fields.find("content") == nullptr) fields.fail("content", "missing");
  read_content(fields, "content", content);
  const bool continues = role == "assistant" && !out.empty() && out.back().at("role") == "assistant" &&
                         out.back().get_object().contains("reasoning_content") && out.back().at("content") == "";
  if (continues)
    out.back().get_object()["content"] = content;
  else
    out.push_back(json::object{{"role", role}, {"content", content}});
}

void read_item(Fields& fields, json::array& out) {
  std::string type = "message";
  fields.text("type", type);
  if (type == "message") return read_message_item(fields, out);
  if (type == "function_call") return read_call_item(fields, out);
  if (type == "function_call_output") return read_output_item(fields, out);
  if (type == "reasoning") return read_reasoning_item(fields, out);
  fields.fail("type", "\"" + type.substr(0, 60) + "\" is not supported", "unsupported_content");
}

void read_input(Fields& fields, json::object& out) {
  json::array messages;
  std::string instructions;
  if (fields.text("instructions", instructions) && !instructions.empty())
    messages.push_back(json::object{{"role", "system"}, {"content", instructions}});
  const size_t before = messages.size();
  const json::value* input = fields.find("input");
  if (input == nullptr) return fields.fail("input", "missing; a string or an array of items");
  if (const json::string* text = input->if_string()) {
    messages.push_back(json::object{{"role", "user"}, {"content", *text}});
  } else if (const json::array* items = fields.array("input")) {
    if (items->size() > kMaxMessages) return fields.fail("input", "at most " + std::to_string(kMaxMessages) + " items");
    for (size_t i = 0; i < items->size() && fields.ok(); ++i) {
      const std::string path = "input[" + std::to_string(i) + "]";
      if (!(*items)[i].is_object()) return fields.fail("input", "the items must be objects");
      Fields item((*items)[i].get_object(), path);
      read_item(item, messages);
      fields.fail(item.error());
    }
  }
  if (messages.size() == before) fields.fail("input", "empty; give at least one item");
  out["messages"] = std::move(messages);
}

// {"type": "function", "name", ...}: what a chat has one level deeper.
void read_tools(Fields& fields, json::object& out) {
  const json::array* tools = fields.array("tools");
  json::array written;
  for (size_t i = 0; tools != nullptr && i < tools->size() && fields.ok(); ++i) {
    if (!(*tools)[i].is_object()) return fields.fail("tools", "expected objects");
    Fields tool((*tools)[i].get_object(), "tools[" + std::to_string(i) + "]");
    std::string type, name, description;
    if (!tool.choice("type", {"function"}, type)) tool.fail("type", "missing; \"function\"");
    if (!tool.text("name", name) || name.empty()) tool.fail("name", "missing");
    tool.text("description", description);
    const json::object* parameters = tool.object("parameters");
    json::object function{{"name", name}, {"description", description}};
    if (parameters != nullptr) function["parameters"] = *parameters;
    written.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
    fields.fail(tool.error());
  }
  if (!written.empty()) out["tools"] = std::move(written);
}

void read_tool_choice(Fields& fields, json::object& out) {
  const json::value* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  std::string word, type, name;
  if (choice->is_string()) {
    if (!fields.choice("tool_choice", {"none", "auto", "required"}, word)) return;
    if (word == "required" && !out.contains("tools")) fields.fail("tool_choice", "\"required\" needs tools");
    out["tool_choice"] = word;
    return;
  }
  const json::object* object = fields.object("tool_choice");
  if (object == nullptr) return;
  Fields inner(*object, "tool_choice");
  if (!inner.choice("type", {"function"}, type)) inner.fail("type", "missing");
  if (!inner.text("name", name)) inner.fail("name", "missing");
  if (inner.ok() && (!out.contains("tools") || !has_tool(out["tools"].get_array(), name)))
    inner.fail("name", "no tool is called \"" + name.substr(0, 60) + "\"");
  fields.fail(inner.error());
  out["tool_choice"] = {{"type", "function"}, {"function", {{"name", name}}}};
}

// text.format: {"type": "json_schema", "name", "schema"}.
void read_format(Fields& fields, json::object& out) {
  const json::object* text = fields.object("text");
  if (text == nullptr) return;
  Fields outer(*text, "text");
  const json::object* format = outer.object("format");
  fields.fail(outer.error());
  if (format == nullptr) return;
  Fields inner(*format, "text.format");
  std::string type;
  if (!inner.choice("type", {"text", "json_object", "json_schema"}, type)) inner.fail("type", "missing");
  const json::object* schema = inner.object("schema");
  if (type == "json_schema" && schema == nullptr) inner.fail("schema", "missing");
  fields.fail(inner.error());
  if (type == "json_object") out["response_format"] = {{"type", type}};
  if (type == "json_schema" && schema != nullptr)
    out["response_format"] = {{"type", type}, {"json_schema", {{"name", "answer"}, {"schema", *schema}}}};
}

void read_reasoning(Fields& fields, json::object& out) {
  const json::object* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return;
  Fields inner(*reasoning, "reasoning");
  std::string effort;
  inner.choice("effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"}, effort);
  fields.fail(inner.error());
  if (effort == "none") default_template_variable(out, "enable_thinking", false);
  if (!effort.empty() && effort != "none") default_template_variable(out, "reasoning_effort", json::value(effort));
}

void read_options(Fields& fields, ChatRequest& out) {
  GenerationOptions& options = out.options;
  fields.text("model", options.model);
  fields.integer("max_output_tokens", 1, kMaxTokens, options.max_tokens);
  double number = 0;
  if (fields.number("temperature", 0, 2, number)) options.temperature = number;
  if (fields.number("top_p", 0, 1, number)) options.top_p = number;
  bool flag = true;
  if (fields.boolean("parallel_tool_calls", flag)) out.template_request["parallel_tool_calls"] = flag;
  fields.boolean("stream", options.stream);
  if (fields.boolean("expert_activations", flag)) options.expert_activations = flag;
}

}  // namespace

std::optional<ApiError> read_responses_request(const json::value& body, ChatRequest& out) {
  if (auto error = expect_object(body)) return error;
  Fields fields(body.get_object());
  json::object& request = out.template_request;
  read_input(fields, request);
  read_tools(fields, request);
  if (fields.ok()) read_tool_choice(fields, request);
  read_format(fields, request);
  read_reasoning(fields, request);
  read_options(fields, out);
  request["add_generation_prompt"] = true;
  for (const char* name : {"previous_response_id", "conversation", "prompt"})
    fields.refuse(name, nullptr, "not supported: this server stores nothing; send the whole input");
  fields.refuse("background", false, "not supported: this server stores nothing");
  fields.refuse("top_logprobs", 0, "not supported; POST /v1/chat/completions has it");
  fields.accept({"store", "include", "metadata", "truncation", "user", "service_tier", "prompt_cache_key",
                 "safety_identifier", "max_tool_calls", "stream_options", "prompt_cache_retention"});
  for (const char* name : {"instructions", "tools", "tool_choice", "parallel_tool_calls", "metadata",
                           "max_output_tokens", "temperature", "top_p", "text", "reasoning"})
    if (const json::value* member = body.get_object().if_contains(name); member != nullptr && !member->is_null())
      out.echo[name] = *member;
  out.unknown = fields.unknown();
  return fields.error();
}

}  // namespace colibri::server

#include "messages_request.h"

#include "messages.h"

namespace colibri::server {
namespace {

// One message's blocks, sorted into what OpenAI's messages have.
struct Blocks {
  std::string text, thinking;
  json::array calls;    // assistant
  json::array results;  // messages of the role "tool"
};

void append_line(std::string& out, const std::string& text) {
  if (!out.empty() && !text.empty()) out += '\n';
  out += text;
}

void read_tool_use(Fields& fields, Blocks& out) {
  std::string id, name;
  if (!fields.text("id", id)) fields.fail("id", "missing");
  if (!fields.text("name", name)) fields.fail("name", "missing");
  const json::object* input = fields.object("input");
  json::object function{{"name", name}, {"arguments", input != nullptr ? *input : json::object()}};
  out.calls.push_back(json::object{{"id", id}, {"type", "function"}, {"function", std::move(function)}});
}

void read_tool_result(Fields& fields, Blocks& out) {
  std::string id, content;
  bool failed = false;
  if (!fields.text("tool_use_id", id)) fields.fail("tool_use_id", "missing");
  read_content(fields, "content", content);
  fields.boolean("is_error", failed);
  if (failed) content = "Error: " + content;
  out.results.push_back(json::object{{"role", "tool"}, {"tool_call_id", id}, {"content", content}});
}

void read_block(Fields& fields, const std::string& role, Blocks& out) {
  std::string type, text;
  if (!fields.text("type", type)) return fields.fail("type", "missing");
  if (type == "text") {
    if (!fields.text("text", text)) fields.fail("text", "missing");
    append_line(out.text, text);
  } else if (type == "thinking" && role == "assistant") {
    fields.text("thinking", text);
    append_line(out.thinking, text);
  } else if (type == "redacted_thinking" && role == "assistant") {
    // nothing that this model could read
  } else if (type == "tool_use" && role == "assistant") {
    read_tool_use(fields, out);
  } else if (type == "tool_result" && role == "user") {
    read_tool_result(fields, out);
  } else {
    fields.fail("type", "\"" + type.substr(0, 60) + "\" is not supported in a message of the role " + role,
                "unsupported_content");
  }
}

void read_blocks(Fields& fields, const std::string& path, const std::string& role, Blocks& out) {
  const json::value* content = fields.find("content");
  if (content == nullptr) return fields.fail("content", "missing");
  if (const json::string* text = content->if_string()) return void(out.text = view(*text));
  const json::array* blocks = fields.array("content");
  for (size_t i = 0; blocks != nullptr && i < blocks->size() && fields.ok(); ++i) {
    const std::string place = path + ".content[" + std::to_string(i) + "]";
    if (!(*blocks)[i].is_object()) return fields.fail("content", "the blocks must be objects");
    Fields block((*blocks)[i].get_object(), place);
    read_block(block, role, out);
    fields.fail(block.error());
  }
}

void append_message(const std::string& role, Blocks blocks, json::array& out) {
  // Results answer the calls of the message before, so they come first.
  for (json::value& result : blocks.results) out.push_back(std::move(result));
  if (!blocks.results.empty() && blocks.text.empty()) return;
  json::object message{{"role", role}, {"content", blocks.text}};
  if (!blocks.calls.empty()) message["tool_calls"] = std::move(blocks.calls);
  if (!blocks.thinking.empty()) message["reasoning_content"] = blocks.thinking;
  out.push_back(std::move(message));
}

void read_history(Fields& fields, json::object& out) {
  json::array messages;
  std::string system;
  read_content(fields, "system", system);
  if (!system.empty()) messages.push_back(json::object{{"role", "system"}, {"content", system}});
  const json::array* given = fields.array("messages");
  if (given == nullptr || given->empty()) return fields.fail("messages", "missing; give at least one message");
  if (given->size() > kMaxMessages) return fields.fail("messages", "at most " + std::to_string(kMaxMessages));
  for (size_t i = 0; i < given->size() && fields.ok(); ++i) {
    const std::string path = "messages[" + std::to_string(i) + "]";
    if (!(*given)[i].is_object()) return fields.fail("messages", "expected objects");
    Fields message((*given)[i].get_object(), path);
    std::string role;
    if (!message.choice("role", {"user", "assistant"}, role)) message.fail("role", "missing; user or assistant");
    Blocks blocks;
    read_blocks(message, path, role, blocks);
    fields.fail(message.error());
    append_message(role, std::move(blocks), messages);
  }
  out["messages"] = std::move(messages);
}

void read_tool(const json::value& tool, const std::string& path, json::array& out, Fields& owner) {
  if (!tool.is_object()) return owner.fail("tools", "expected objects");
  Fields fields(tool.get_object(), path);
  std::string type = "custom", name, description;
  fields.choice("type", {"custom"}, type);
  if (!fields.text("name", name) || name.empty()) fields.fail("name", "missing");
  fields.text("description", description);
  const json::object* schema = fields.object("input_schema");
  if (schema == nullptr) fields.fail("input_schema", "missing");
  owner.fail(fields.error());
  if (schema == nullptr) return;
  out.push_back(json::object{{"type", "function"},
                             {"function", {{"name", name}, {"description", description}, {"parameters", *schema}}}});
}

void read_tool_choice(Fields& fields, json::object& out) {
  const json::object* choice = fields.object("tool_choice");
  if (choice == nullptr) return;
  Fields inner(*choice, "tool_choice");
  std::string type, name;
  bool one = false;
  if (!inner.choice("type", {"auto", "any", "tool", "none"}, type)) inner.fail("type", "missing");
  if (type == "tool" && !inner.text("name", name)) inner.fail("name", "missing");
  inner.boolean("disable_parallel_tool_use", one);
  if ((type == "any" || type == "tool") && !out.contains("tools")) inner.fail("type", "\"" + type + "\" needs tools");
  fields.fail(inner.error());
  if (one) out["parallel_tool_calls"] = false;
  if (type == "any") out["tool_choice"] = "required";
  if (type == "auto" || type == "none") out["tool_choice"] = type;
  if (type != "tool" || !fields.ok()) return;
  if (!has_tool(out["tools"].get_array(), name))
    fields.fail("tool_choice", "no tool is called \"" + name.substr(0, 60) + "\"");
  out["tool_choice"] = {{"type", "function"}, {"function", {{"name", name}}}};
}

void read_tools(Fields& fields, json::object& out) {
  const json::array* tools = fields.array("tools");
  json::array written;
  for (size_t i = 0; tools != nullptr && i < tools->size() && fields.ok(); ++i)
    read_tool((*tools)[i], "tools[" + std::to_string(i) + "]", written, fields);
  if (!written.empty()) out["tools"] = std::move(written);
  if (fields.ok()) read_tool_choice(fields, out);
}

void read_thinking(Fields& fields, json::object& out) {
  const json::object* thinking = fields.object("thinking");
  if (thinking == nullptr) return;
  Fields inner(*thinking, "thinking");
  std::string type;
  if (!inner.choice("type", {"enabled", "disabled", "adaptive"}, type)) inner.fail("type", "missing");
  fields.fail(inner.error());
  if (type != "adaptive") default_template_variable(out, "enable_thinking", type == "enabled");
}

// {"type": "json_schema", "schema": {...}}
void read_format(Fields& fields, const json::object* format, const std::string& path, json::object& out) {
  if (format == nullptr) return;
  Fields inner(*format, path);
  std::string type;
  if (!inner.choice("type", {"json_schema"}, type)) inner.fail("type", "missing");
  const json::object* schema = inner.object("schema");
  if (schema == nullptr) inner.fail("schema", "missing");
  fields.fail(inner.error());
  if (schema != nullptr)
    out["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", *schema}}}};
}

void read_output_format(Fields& fields, json::object& out) {
  read_format(fields, fields.object("output_format"), "output_format", out);
  if (const json::object* config = fields.object("output_config")) {
    Fields inner(*config, "output_config");
    read_format(fields, inner.object("format"), "output_config.format", out);
    fields.fail(inner.error());
  }
}

void read_options(Fields& fields, bool count_only, GenerationOptions& options) {
  fields.text("model", options.model);
  if (!fields.integer("max_tokens", 1, kMaxTokens, options.max_tokens) && !count_only)
    fields.fail("max_tokens", "missing; the most tokens that the answer may have");
  double number = 0;
  if (fields.number("temperature", 0, 2, number)) options.temperature = number;
  if (fields.number("top_p", 0, 1, number)) options.top_p = number;
  int64_t top_k = 0;
  if (fields.integer("top_k", 0, INT32_MAX, top_k)) options.top_k = top_k;
  read_stop(fields, "stop_sequences", options.stop);
  fields.boolean("stream", options.stream);
  bool activations = false;
  if (fields.boolean("expert_activations", activations)) options.expert_activations = activations;
}

}  // namespace

std::optional<ApiError> read_messages_request(const json::value& body, bool count_only, ChatRequest& out) {
  if (auto error = expect_object(body)) return error;
  Fields fields(body.get_object());
  read_history(fields, out.template_request);
  read_tools(fields, out.template_request);
  read_thinking(fields, out.template_request);
  read_output_format(fields, out.template_request);
  read_options(fields, count_only, out.options);
  out.template_request["add_generation_prompt"] = true;
  for (const char* name : {"mcp_servers", "container"}) fields.refuse(name, nullptr, "not supported; leave it out");
  fields.accept({"metadata", "service_tier", "context_management", "cache_control", "betas"});
  out.unknown = fields.unknown();
  return fields.error();
}

}  // namespace colibri::server

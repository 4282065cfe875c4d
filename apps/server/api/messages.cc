#include "messages.h"

#include <algorithm>

namespace colibri::server {
namespace {

constexpr size_t kMaxTools = 1024;

// "input_text" and "output_text" are the words of /v1/responses, "refusal" OpenAI's for an answer that was none.
bool is_text_part(std::string_view type) {
  return type == "text" || type == "input_text" || type == "output_text" || type == "refusal";
}

bool is_instruction(const json::value& message) {
  return message.at("role") == "system" || message.at("role") == "developer";
}

void append_part(const json::value& part, const std::string& path, std::string& out, Fields& owner) {
  if (!part.is_object()) return owner.fail("content", "the parts must be objects");
  Fields fields(part.get_object(), path);
  std::string type, text;
  if (!fields.text("type", type)) fields.fail("type", "missing");
  if (fields.ok() && !is_text_part(type))
    fields.fail("type", "\"" + type.substr(0, 60) + "\" is not supported; this server reads text only",
                "unsupported_content");
  if (!fields.text(type == "refusal" ? "refusal" : "text", text)) fields.fail("text", "missing");
  owner.fail(fields.error());
  if (!out.empty() && !text.empty()) out += '\n';
  out += text;
}

void read_call(const json::value& call, const std::string& path, json::array& out, Fields& owner) {
  if (!call.is_object()) return owner.fail("tool_calls", "the calls must be objects");
  Fields fields(call.get_object(), path);
  std::string id, type = "function", name;
  fields.text("id", id);
  fields.choice("type", {"function"}, type);
  const json::object* function = fields.object("function");
  if (function == nullptr) {
    fields.fail("function", "missing");
    return owner.fail(fields.error());
  }
  Fields inner(*function, path + ".function");
  if (!inner.text("name", name)) inner.fail("name", "missing");
  const json::value* arguments = inner.find("arguments");
  if (arguments != nullptr && !arguments->is_string() && !arguments->is_object())
    inner.fail("arguments", "expected JSON text, got " + std::string(kind_of(*arguments)));
  fields.fail(inner.error());
  owner.fail(fields.error());
  json::object written{
      {"type", "function"},
      {"function", {{"name", name}, {"arguments", arguments != nullptr ? *arguments : json::value("{}")}}}};
  if (!id.empty()) written["id"] = id;
  out.push_back(std::move(written));
}

void read_calls(Fields& fields, const std::string& path, json::object& out) {
  const json::array* calls = fields.array("tool_calls");
  if (calls == nullptr || calls->empty()) return;
  json::array written;
  for (size_t i = 0; i < calls->size(); ++i)
    read_call((*calls)[i], path + ".tool_calls[" + std::to_string(i) + "]", written, fields);
  out["tool_calls"] = std::move(written);
}

void read_assistant(Fields& fields, const std::string& path, json::object& out) {
  read_calls(fields, path, out);
  std::string reasoning;
  if (!fields.text("reasoning_content", reasoning)) fields.text("reasoning", reasoning);
  if (!reasoning.empty()) out["reasoning_content"] = reasoning;
}

// A string, or several text parts, which some templates tell apart.
json::value content_of(Fields& fields) {
  std::string text;
  read_content(fields, "content", text);
  const json::value* given = fields.find("content");
  if (given == nullptr || !given->is_array() || given->get_array().size() < 2) return json::value(text);
  json::array parts;
  for (const json::value& part : given->get_array()) {
    const json::object& object = part.get_object();
    parts.push_back(
        json::object{{"type", "text"}, {"text", *object.if_contains(object.contains("text") ? "text" : "refusal")}});
  }
  return parts;
}

void read_message(const json::value& message, const std::string& path, json::array& out,
                  std::optional<ApiError>& error) {
  if (!message.is_object()) {
    error = bad_request(path, path + ": expected an object, got " + std::string(kind_of(message)));
    return;
  }
  Fields fields(message.get_object(), path);
  std::string role, name;
  if (!fields.choice("role", {"system", "developer", "user", "assistant", "tool", "function"}, role))
    fields.fail("role", "missing; system, user, assistant or tool");
  json::object written{{"role", role == "function" ? "tool" : role}, {"content", content_of(fields)}};
  if (role == "assistant") read_assistant(fields, path, written);
  const bool has_call = written.contains("tool_calls");
  if (!message.get_object().contains("content") && !has_call && !written.contains("reasoning_content"))
    fields.fail("content", "missing");
  if (fields.text("name", name)) written["name"] = name;
  std::string call_id;
  if (fields.text("tool_call_id", call_id)) written["tool_call_id"] = call_id;
  error = fields.error();
  out.push_back(std::move(written));
}

}  // namespace

void read_content(Fields& fields, std::string_view name, std::string& out) {
  const json::value* value = fields.find(name);
  if (value == nullptr) return;
  if (const json::string* text = value->if_string()) {
    out = view(*text);
    return;
  }
  const json::array* parts = value->if_array();
  if (parts == nullptr)
    return fields.fail(name, "expected a string or an array of parts, got " + std::string(kind_of(*value)));
  for (size_t i = 0; i < parts->size(); ++i)
    append_part((*parts)[i], fields.name_of(name) + "[" + std::to_string(i) + "]", out, fields);
}

std::optional<ApiError> normalize_messages(const json::array& messages, const std::string& path, json::array& out) {
  if (messages.empty()) return bad_request(path, path + ": empty; give at least one message");
  if (messages.size() > kMaxMessages)
    return bad_request(path, path + ": at most " + std::to_string(kMaxMessages) + " messages");
  std::optional<ApiError> error;
  bool anybody = false;
  for (size_t i = 0; i < messages.size() && !error; ++i) {
    read_message(messages[i], path + "[" + std::to_string(i) + "]", out, error);
    if (!error) anybody = anybody || !is_instruction(out.back());
  }
  if (!error && !anybody) error = bad_request(path, path + ": only system messages; add one of the user");
  return error;
}

std::optional<ApiError> check_tools(const json::array& tools) {
  if (tools.size() > kMaxTools) return bad_request("tools", "tools: at most " + std::to_string(kMaxTools));
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string path = "tools[" + std::to_string(i) + "]";
    if (!tools[i].is_object()) return bad_request(path, path + ": expected an object");
    Fields fields(tools[i].get_object(), path);
    std::string type, name;
    if (!fields.choice("type", {"function"}, type)) fields.fail("type", "missing; \"function\"");
    if (const json::object* function = fields.object("function")) {
      Fields inner(*function, path + ".function");
      if (!inner.text("name", name) || name.empty()) inner.fail("name", "missing");
      std::string description;
      inner.text("description", description);
      inner.object("parameters");
      fields.fail(inner.error());
    } else {
      fields.fail("function", "missing");
    }
    if (!fields.ok()) return fields.error();
  }
  return std::nullopt;
}

bool has_tool(const json::array& tools, std::string_view name) {
  return std::any_of(tools.begin(), tools.end(), [name](const json::value& tool) {
    return view(tool.at("function").at("name").get_string()) == name;
  });
}

}  // namespace colibri::server

#include "text/answer_request.h"

#include <algorithm>

namespace colibri::text {
namespace {

Error usage(std::string message) { return {ErrorCode::kUsage, std::move(message)}; }

const std::string* string_member(const Json& object, const char* key) {
  const Json* value = object.find_value(key);
  return value != nullptr && value->is_string() ? &value->as_string() : nullptr;
}

// {"type": "function", "function": {...}}, or the function alone.
Result<AnswerTool> parse_tool(const Json& tool, const std::string& place) {
  const Json* function = tool.find_value("function");
  const Json& described = function != nullptr ? *function : tool;
  const std::string* name = string_member(described, "name");
  if (name == nullptr || name->empty()) return usage(place + " has no function with a name");
  const Json* parameters = described.find_value("parameters");
  if (parameters != nullptr && !parameters->is_object())
    return usage(place + " (" + *name + "): parameters must be a JSON Schema, an object");
  return AnswerTool{*name, parameters != nullptr ? *parameters : Json()};
}

Status parse_tools(const Json& request, AnswerRequest& out) {
  const Json* tools = request.find_value("tools");
  if (tools == nullptr) return {};
  if (!tools->is_array()) return usage("tools must be a list");
  for (size_t i = 0; i < tools->as_array().size(); ++i) {
    COLIBRI_ASSIGN(AnswerTool tool, parse_tool(tools->as_array()[i], "tools[" + std::to_string(i) + "]"));
    out.tools.push_back(std::move(tool));
  }
  return {};
}

std::string names_of(const std::vector<AnswerTool>& tools) {
  std::string names;
  for (const AnswerTool& tool : tools) names += (names.empty() ? "" : ", ") + tool.name;
  return names.empty() ? "none" : names;
}

Status choose_function(const Json& choice, AnswerRequest& out) {
  const Json* function = choice.find_value("function");
  const std::string* name = function != nullptr ? string_member(*function, "name") : string_member(choice, "name");
  if (name == nullptr) return usage("tool_choice must be none, auto, required, or name a function");
  const auto found =
      std::find_if(out.tools.begin(), out.tools.end(), [&](const AnswerTool& tool) { return tool.name == *name; });
  if (found == out.tools.end())
    return usage("tool_choice names \"" + *name + "\", which is not among the tools: " + names_of(out.tools));
  out.tools = {AnswerTool(*found)};
  out.choice = AnswerRequest::Choice::kRequired;
  out.parallel = false;
  return {};
}

Status parse_choice(const Json& request, AnswerRequest& out) {
  const Json* choice = request.find_value("tool_choice");
  if (choice == nullptr || *choice == Json("auto")) return {};
  if (choice->is_object()) return choose_function(*choice, out);
  if (*choice == Json("none")) {
    out.choice = AnswerRequest::Choice::kNone;
    return {};
  }
  if (*choice != Json("required")) return usage("tool_choice must be none, auto, required, or name a function");
  if (out.tools.empty()) return usage("tool_choice is required, but there are no tools");
  out.choice = AnswerRequest::Choice::kRequired;
  return {};
}

Status parse_format(const Json& request, AnswerRequest& out) {
  const Json* format = request.find_value("response_format");
  if (format == nullptr) return {};
  const std::string* type = string_member(*format, "type");
  if (type == nullptr || (*type != "text" && *type != "json_object" && *type != "json_schema"))
    return usage("response_format.type must be text, json_object or json_schema");
  if (*type == "text") return {};
  out.json = true;
  const Json* wrapper = *type == "json_schema" ? format->find_value("json_schema") : format;
  const Json* schema = wrapper != nullptr ? wrapper->find_value("schema") : nullptr;
  if (schema == nullptr && *type == "json_schema") schema = format->find_value("schema");
  if (schema == nullptr && *type == "json_schema") return usage("response_format.json_schema has no schema");
  if (schema != nullptr && !schema->is_object()) return usage("the schema of response_format must be an object");
  if (schema != nullptr) out.schema = *schema;
  return {};
}

}  // namespace

Result<AnswerRequest> parse_answer_request(const Json& request) {
  if (!request.is_object()) return usage("the request must be a JSON object");
  AnswerRequest out;
  COLIBRI_TRY(parse_tools(request, out));
  if (const Json* parallel = request.find_value("parallel_tool_calls")) {
    if (!parallel->is_bool()) return usage("parallel_tool_calls must be true or false");
    out.parallel = parallel->as_bool();
  }
  COLIBRI_TRY(parse_choice(request, out));
  COLIBRI_TRY(parse_format(request, out));
  return out;
}

AnswerOptions AnswerRequest::options(std::string id_seed, std::string prompt) const {
  AnswerOptions options;
  options.tools = tools;
  options.calls = may_call();
  if (!parallel) options.max_calls = 1;
  options.id_seed = std::move(id_seed);
  options.prompt = std::move(prompt);
  return options;
}

}  // namespace colibri::text

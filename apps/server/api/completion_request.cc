#include "completion_request.h"

#include "chat_request.h"

namespace colibri::server {
namespace {

using Prompts = std::vector<std::variant<std::string, api::TokenIds>>;

void add_ids(Fields& fields, const json::array& ids, const std::string& name, Prompts& out) {
  size_t bad = 0;
  std::optional<api::TokenIds> tokens = common::token_ids(ids, &bad);
  if (!tokens) return fields.fail("prompt", name + "[" + std::to_string(bad) + "] is no token id");
  if (tokens->empty()) return fields.fail("prompt", name + " is empty; give at least one token");
  out.emplace_back(*std::move(tokens));
}

void add_text(Fields& fields, const json::string& text, const std::string& name, Prompts& out) {
  if (text.empty()) return fields.fail("prompt", name + " is empty; give at least one character");
  out.emplace_back(std::string(view(text)));
}

// A string, [string], [id], or [[id]].
void read_prompts(Fields& fields, Prompts& out) {
  const json::value* prompt = fields.find("prompt");
  if (prompt == nullptr) return fields.fail("prompt", "missing; a string, token ids, or an array of either");
  if (const json::string* text = prompt->if_string()) return add_text(fields, *text, "prompt", out);
  const json::array* list = prompt->if_array();
  if (list == nullptr)
    return fields.fail("prompt", "expected a string or an array, got " + std::string(kind_of(*prompt)));
  if (list->empty()) return fields.fail("prompt", "empty; give at least one prompt");
  if (list->front().is_number()) return add_ids(fields, *list, "prompt", out);
  if (list->size() > kMaxPrompts)
    return fields.fail("prompt",
                       "at most " + std::to_string(kMaxPrompts) + " prompts, got " + std::to_string(list->size()));
  for (size_t i = 0; i < list->size() && fields.ok(); ++i) {
    const json::value& one = (*list)[i];
    const std::string name = "prompt[" + std::to_string(i) + "]";
    if (one.is_array())
      add_ids(fields, one.get_array(), name, out);
    else if (one.is_string())
      add_text(fields, one.get_string(), name, out);
    else
      fields.fail("prompt", name + ": expected a string or token ids, got " + std::string(kind_of(one)));
  }
}

}  // namespace

std::string constraint_of(const json::value& response_format) {
  if (response_format.is_null()) return {};
  if (response_format.at("type") != "json_schema") return R"({"json": true})";
  const json::value* schema = response_format.at("json_schema").get_object().if_contains("schema");
  return schema == nullptr ? R"({"json": true})" : common::dump_json(json::object{{"schema", *schema}});
}

std::optional<ApiError> read_completion_request(const json::value& body, CompletionRequest& out) {
  if (auto error = expect_object(body)) return error;
  Fields fields(body.get_object());
  GenerationOptions& options = out.options;
  read_prompts(fields, out.prompts);
  read_generation_options(fields, options);
  read_max_tokens(fields, 0, options);
  if (options.max_tokens < 0) options.max_tokens = 16;  // OpenAI's default
  fields.boolean("echo", options.echo);
  int64_t logprobs = 0;
  if (fields.integer("logprobs", 0, COLIBRI_MAX_TOP_LOGPROBS, logprobs)) options.logprobs = logprobs;
  fields.refuse("best_of", options.n, "must equal n; choosing among more answers is not supported");
  fields.refuse("suffix", "", "not supported; leave it out");
  const json::value format = read_response_format(fields);
  if (fields.ok()) out.constraint = constraint_of(format);
  if (fields.ok() && out.prompts.size() * static_cast<size_t>(options.n) > kMaxPrompts)
    fields.fail("n", std::to_string(out.prompts.size()) + " prompts times n answers are more than " +
                         std::to_string(kMaxPrompts));
  out.unknown = fields.unknown();
  return fields.error();
}

}  // namespace colibri::server

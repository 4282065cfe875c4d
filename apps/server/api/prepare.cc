#include "prepare.h"

namespace colibri::server {
namespace {

ApiError no_tokenizer(const std::string& param) {
  return bad_request(param, "this model came without a tokenizer; POST /v1/completions with token ids works",
                     "no_tokenizer");
}

// Agents read the first sentence to find out that they must shorten their history.
std::optional<ApiError> check_context(const ApiContext& context, const api::TokenIds& prompt,
                                      const GenerationOptions& options, const std::string& param) {
  const int64_t most = context.host.engine()->info().context;
  const auto n = static_cast<int64_t>(prompt.size());
  if (n + (options.max_tokens == 0 ? 0 : 1) <= most) return std::nullopt;
  std::string message = "This model's maximum context length is " + std::to_string(most) + " tokens. However, your " +
                        param + " resulted in " + std::to_string(n) + " tokens";
  message += options.max_tokens > 0 ? " and you requested " + std::to_string(options.max_tokens) + " tokens of answer"
                                    : std::string();
  return bad_request(param, message + ". Please reduce the length of the " + param + ".", "context_length_exceeded");
}

// Of a template that has no place for them, tools would be left out without a word.
std::optional<ApiError> check_tools_shown(const ApiContext& context, const json::object& request,
                                          const std::string& prompt) {
  const json::value* choice = request.if_contains("tool_choice");
  if (!request.contains("tools") || (choice != nullptr && *choice == "none")) return std::nullopt;
  json::object without = request;
  without.erase("tools");
  const auto bare = render_chat(context, without);
  if (!bare || *bare != prompt) return std::nullopt;
  return bad_request("tools",
                     "the chat template of this model has no place for tools; leave them out, or serve a model "
                     "that was made for them",
                     "unsupported_parameter");
}

std::optional<ApiError> check_ids(const ApiContext& context, const api::TokenIds& ids) {
  const int32_t vocab = context.host.engine()->info().vocab_size;
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab)
      return bad_request("prompt", "prompt: token " + std::to_string(i) + " is " + std::to_string(ids[i]) +
                                       ", the vocabulary has ids 0 to " + std::to_string(vocab - 1));
  return std::nullopt;
}

std::optional<ApiError> check_bias(const ApiContext& context, const GenerationOptions& options) {
  const int32_t vocab = context.host.engine()->info().vocab_size;
  for (const colibri_logit_bias& one : options.logit_bias)
    if (one.token >= vocab)
      return bad_request("logit_bias", "logit_bias names token " + std::to_string(one.token) +
                                           ", the vocabulary has ids 0 to " + std::to_string(vocab - 1));
  return std::nullopt;
}

AnswerHead head_of(const ApiContext& context, const GenerationPlan& plan) {
  AnswerHead head;
  head.id = random_id();
  head.model = plan.options.model.empty() ? context.settings.model_name : plan.options.model;
  head.created = unix_seconds();
  head.n_choices = plan.prompts.size() * static_cast<size_t>(plan.options.n);
  head.include_usage = plan.options.include_usage;
  head.logprobs = plan.options.logprobs >= 0;
  return head;
}

void set_caller(const ApiContext& context, const Caller& caller, GenerationPlan& plan) {
  plan.id = caller.id;
  plan.client = caller.client;
  if (!context.settings.prefixes_per_client) return;
  // A separator that no key has, so that two pairs never make one key.
  plan.options.prefix_key = caller.client + "\n" + plan.options.prefix_key;
}

std::optional<ApiError> open_readers(const ApiContext& context, json::object request, const std::string& prompt,
                                     GenerationPlan& plan) {
  const json::value* format = request.if_contains("response_format");
  plan.constraint_blame = format != nullptr && !format->is_null() ? "response_format"
                          : request.contains("tool_choice")       ? "tool_choice"
                                                                  : "tools";
  for (int64_t i = 0; i < plan.options.n; ++i) {
    request["answer_id"] = random_id();  // ids of calls follow from it
    auto reader = AnswerReader::open(context.host.engine()->text(), common::dump_json(request), prompt);
    if (!reader) return api_error_of(reader.error(), plan.constraint_blame);
    plan.readers.push_back(*std::move(reader));
  }
  auto kept = plan.readers.front().kept_special();
  auto constraint = plan.readers.front().constraint();
  if (!kept) return api_error_of(kept.error(), {});
  if (!constraint) return api_error_of(constraint.error(), plan.constraint_blame);
  plan.kept_special = *std::move(kept);
  plan.constraint = *std::move(constraint);
  return std::nullopt;
}

// A tokenizer takes tens of bytes for each byte of an odd text, so what cannot fit is refused before.
std::optional<ApiError> check_bytes(const ApiContext& context, size_t bytes, const std::string& param) {
  constexpr size_t kMargin = 4;  // some tokenizers fold text first
  const auto most = static_cast<size_t>(context.host.engine()->info().context);
  const auto fits = [&](size_t longest_token) { return bytes / kMargin <= most * longest_token; };
  if (fits(EngineTexts::kLeastLongest) || fits(context.texts.longest())) return std::nullopt;
  return bad_request(param,
                     "This model's maximum context length is " + std::to_string(most) + " tokens. However, your " +
                         param + " has " + std::to_string(bytes) +
                         " bytes, more than so many tokens can hold. Please reduce the length of the " + param + ".",
                     "context_length_exceeded");
}

std::optional<ApiError> add_prompt(const ApiContext& context, std::variant<std::string, api::TokenIds>& prompt,
                                   GenerationPlan& plan) {
  if (auto* ids = std::get_if<api::TokenIds>(&prompt)) {
    if (auto error = check_ids(context, *ids)) return error;
    plan.prompts.push_back(std::move(*ids));
  } else {
    if (!context.host.engine()->text()) return no_tokenizer("prompt");
    api::TokenIds tokens;
    const uint32_t flags = COLIBRI_ADD_SPECIAL | COLIBRI_PARSE_SPECIAL;
    if (auto error = tokenize(context, std::get<std::string>(prompt), flags, "prompt", tokens)) return error;
    plan.prompts.push_back(std::move(tokens));
  }
  return check_context(context, plan.prompts.back(), plan.options, "prompt");
}

}  // namespace

std::optional<ApiError> parse_body(const std::string& body, json::value& out) {
  auto parsed = common::parse_json(body, "body");
  if (!parsed) return bad_request("", parsed.error().message, "invalid_json");
  out = *std::move(parsed);
  return std::nullopt;
}

api::Outcome<std::string> render_chat(const ApiContext& context, const json::object& template_request) {
  const api::TextView text = context.host.engine()->text();
  if (!text) return api::Error{COLIBRI_USAGE, no_tokenizer("").message};
  auto rendered = text.apply_template(common::dump_json(template_request));
  // Whatever a template does with these messages, other messages are the way out.
  if (!rendered) return api::Error{COLIBRI_USAGE, "the model's chat template failed: " + rendered.error().message};
  return rendered;
}

std::optional<ApiError> tokenize(const ApiContext& context, const std::string& text, uint32_t flags,
                                 const std::string& param, api::TokenIds& out) {
  if (auto error = check_bytes(context, text.size(), param)) return error;
  auto tokens = context.host.engine()->text().tokenize(text, flags);
  if (!tokens) return api_error_of(tokens.error(), param);
  out = *std::move(tokens);
  return std::nullopt;
}

std::optional<ApiError> plan_chat(ApiContext& context, const Caller& caller, ChatRequest request, MakeChatFormat format,
                                  GenerationPlan& plan) {
  plan.options = std::move(request.options);
  if (plan.blame.empty()) plan.blame = "messages";
  if (auto error = check_model(context, plan.options.model)) return error;
  if (auto error = check_bias(context, plan.options)) return error;
  const auto prompt = render_chat(context, request.template_request);
  if (!prompt) return api_error_of(prompt.error(), plan.blame);
  api::TokenIds tokens;
  if (auto error = tokenize(context, *prompt, COLIBRI_PARSE_SPECIAL, plan.blame, tokens)) return error;
  if (auto error = check_tools_shown(context, request.template_request, *prompt)) return error;
  plan.prompts.push_back(std::move(tokens));
  if (auto error = check_context(context, plan.prompts.back(), plan.options, plan.blame)) return error;
  if (auto error = open_readers(context, std::move(request.template_request), *prompt, plan)) return error;
  set_caller(context, caller, plan);
  AnswerHead head = head_of(context, plan);
  head.echo = std::move(request.echo);
  plan.format = format(std::move(head), context.texts);
  return std::nullopt;
}

std::optional<ApiError> plan_completion(ApiContext& context, const Caller& caller, CompletionRequest request,
                                        GenerationPlan& plan) {
  plan.options = std::move(request.options);
  plan.constraint = std::move(request.constraint);
  plan.blame = "prompt";
  plan.end_token_logprob = true;
  if (auto error = check_model(context, plan.options.model)) return error;
  if (auto error = check_bias(context, plan.options)) return error;
  for (auto& prompt : request.prompts)
    if (auto error = add_prompt(context, prompt, plan)) return error;
  set_caller(context, caller, plan);
  plan.format = completion_format(head_of(context, plan), context.texts);
  return std::nullopt;
}

}  // namespace colibri::server

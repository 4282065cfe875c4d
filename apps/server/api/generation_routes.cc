// POST /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, /v1/messages/count_tokens.
#include <exception>

#include "api_routes.h"
#include "messages_request.h"
#include "prepare.h"
#include "responses_request.h"

namespace colibri::server {
namespace {

using Refusal = HttpResponse (*)(const ApiError& error);

HttpResponse openai_refusal(const ApiError& error) { return error_answer(error); }

// Reads a body and makes a plan, or a finished answer.
using Plan = std::optional<ApiError> (*)(ApiContext& context, const Caller& caller, const json::value& body,
                                         GenerationPlan& plan);

std::optional<ApiError> guarded(Plan make, ApiContext& context, const HttpRequest& request, GenerationPlan& plan) {
  try {
    json::value body;
    if (auto error = parse_body(request.body, body)) return error;
    return make(context, {request.id, request.client}, body, plan);
  } catch (const std::bad_alloc&) {
    return ApiError{503, "out of memory while the request was read; send a smaller one", "out_of_memory", {}, {}, 5};
  } catch (const std::exception& fault) {
    return ApiError{500, std::string("the request could not be read: ") + fault.what(), "internal_error", {}, {}, 0};
  }
}

void answer_with_model(ApiContext& context, HttpRequest request, std::shared_ptr<Responder> responder, Plan make,
                       Refusal refuse) {
  if (const auto error = engine_missing(context.host)) return responder->respond(refuse(*error));
  if (context.admission.full()) return responder->respond(refuse(queue_full(context)));
  context.preparing.run([&context, request = std::move(request), responder = std::move(responder), make, refuse] {
    auto plan = std::make_shared<GenerationPlan>();
    const auto error = guarded(make, context, request, *plan);
    responder->post([&context, plan, error, responder, refuse] {
      error ? responder->respond(refuse(*error)) : Generation::start(context, std::move(*plan), responder);
    });
  });
}

std::optional<ApiError> chat(ApiContext& context, const Caller& caller, const json::value& body, GenerationPlan& plan) {
  ChatRequest request;
  if (auto error = read_chat_request(body, request)) return error;
  context.log_unknown(request.unknown, "/v1/chat/completions");
  return plan_chat(context, caller, std::move(request), chat_format, plan);
}

std::optional<ApiError> completion(ApiContext& context, const Caller& caller, const json::value& body,
                                   GenerationPlan& plan) {
  CompletionRequest request;
  if (auto error = read_completion_request(body, request)) return error;
  context.log_unknown(request.unknown, "/v1/completions");
  return plan_completion(context, caller, std::move(request), plan);
}

std::optional<ApiError> messages(ApiContext& context, const Caller& caller, const json::value& body,
                                 GenerationPlan& plan) {
  ChatRequest request;
  if (auto error = read_messages_request(body, false, request)) return error;
  context.log_unknown(request.unknown, "/v1/messages");
  plan.timings = false;
  const auto format = [](AnswerHead head, const TokenTexts&) { return messages_format(std::move(head)); };
  return plan_chat(context, caller, std::move(request), format, plan);
}

std::optional<ApiError> responses(ApiContext& context, const Caller& caller, const json::value& body,
                                  GenerationPlan& plan) {
  ChatRequest request;
  if (auto error = read_responses_request(body, request)) return error;
  context.log_unknown(request.unknown, "/v1/responses");
  plan.timings = false;
  plan.blame = "input";
  const auto format = [](AnswerHead head, const TokenTexts&) { return responses_format(std::move(head)); };
  return plan_chat(context, caller, std::move(request), format, plan);
}

HttpResponse count_tokens(ApiContext& context, const std::string& text) {
  json::value body;
  ChatRequest request;
  auto error = parse_body(text, body);
  if (!error) error = read_messages_request(body, true, request);
  if (!error) error = check_model(context, request.options.model);
  if (error) return anthropic_refusal(*error);
  const auto prompt = render_chat(context, request.template_request);
  if (!prompt) return anthropic_refusal(api_error_of(prompt.error(), "messages"));
  api::TokenIds tokens;
  error = tokenize(context, *prompt, COLIBRI_PARSE_SPECIAL, "messages", tokens);
  if (error) return anthropic_refusal(*error);
  return json_answer(json::object{{"input_tokens", tokens.size()}});
}

void add(Router& router, ApiContext& context, const char* path, Plan make, Refusal refuse) {
  Route route;
  route.method = "POST";
  route.path = path;
  route.handler = [&context, make, refuse](HttpRequest request, std::shared_ptr<Responder> responder) {
    answer_with_model(context, std::move(request), std::move(responder), make, refuse);
  };
  router.add(std::move(route));
}

}  // namespace

void add_generation_routes(Router& router, ApiContext& context) {
  for (const char* path : {"/v1/chat/completions", "/chat/completions"})
    add(router, context, path, chat, openai_refusal);
  for (const char* path : {"/v1/completions", "/completions"}) add(router, context, path, completion, openai_refusal);
  add(router, context, "/v1/responses", responses, openai_refusal);
  add(router, context, "/v1/messages", messages, anthropic_refusal);
  router.shape_errors("/v1/messages", anthropic_error);
  add_prepared_route(router, context, "/v1/messages/count_tokens", anthropic_refusal, count_tokens);
}

}  // namespace colibri::server

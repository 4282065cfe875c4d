// POST /tokenize, /detokenize, /apply-template, GET /tokenizer_info, POST /v1/embeddings.
#include <exception>

#include "api_routes.h"
#include "prepare.h"

namespace colibri::server {
namespace {

HttpResponse refuse(const ApiError& error) { return error_answer(error); }

ApiError no_tokenizer() { return bad_request("", "this model came without a tokenizer", "no_tokenizer"); }

// A token's text; as bytes where it is no UTF-8, as llama.cpp has it.
json::value piece_of(const ApiContext& context, int32_t id) {
  const std::string bytes = context.texts.bytes_of(id);
  if (is_utf8(bytes)) return json::value(bytes);
  json::array list;
  for (const char c : bytes) list.push_back(static_cast<int64_t>(static_cast<unsigned char>(c)));
  return list;
}

struct TokenizeRequest {
  std::string text;
  bool add_special = false, parse_special = true, with_pieces = false, with_strings = false;
};

// {"content"} is llama.cpp's word and adds nothing; {"prompt"} is vLLM's and adds BOS; {"messages"} is a chat.
std::optional<ApiError> read_tokenize(const ApiContext& context, const json::value& body, TokenizeRequest& out) {
  if (auto error = expect_object(body)) return error;
  Fields fields(body.get_object());
  const bool is_content = fields.text("content", out.text);
  const bool is_prompt = !is_content && fields.text("prompt", out.text);
  const json::array* messages = fields.array("messages");
  if (!is_content && !is_prompt && messages == nullptr)
    fields.fail("content", "missing; give content, prompt or messages");
  out.add_special = is_prompt;
  fields.boolean("add_special", out.add_special);
  fields.boolean("add_special_tokens", out.add_special);
  fields.boolean("parse_special", out.parse_special);
  fields.boolean("with_pieces", out.with_pieces);
  fields.boolean("return_token_strs", out.with_strings);
  if (messages == nullptr || is_content || is_prompt || !fields.ok()) return fields.error();
  json::object request;
  read_template_members(fields, request);
  if (!fields.ok()) return fields.error();
  auto prompt = render_chat(context, request);
  if (!prompt) return api_error_of(prompt.error(), "messages");
  out.text = *std::move(prompt);
  return std::nullopt;
}

// A list with one element for each id, written as it is made: as JSON values, a million tokens would take a gigabyte.
template <typename Write>
void append_list(std::string& out, const api::TokenIds& ids, Write write) {
  out += '[';
  for (const int32_t id : ids) {
    if (out.back() != '[') out += ", ";
    write(id);
  }
  out += ']';
}

std::string tokens_json(const ApiContext& context, const api::TokenIds& ids, const TokenizeRequest& request) {
  std::string out = "{\"tokens\": ";
  append_list(out, ids, [&](int32_t id) {
    if (!request.with_pieces) return void(out += std::to_string(id));
    out += "{\"id\": " + std::to_string(id) + ", \"piece\": " + common::dump_json(piece_of(context, id)) + "}";
  });
  out += ", \"count\": " + std::to_string(ids.size());
  out += ", \"max_model_len\": " + std::to_string(context.host.engine()->info().context);
  if (request.with_strings) {
    out += ", \"token_strs\": ";
    append_list(out, ids,
                [&](int32_t id) { out += common::dump_json(json::value(to_utf8(context.texts.bytes_of(id)))); });
  }
  return out += "}";
}

HttpResponse answer_tokenize(ApiContext& context, const std::string& text) {
  json::value body;
  TokenizeRequest request;
  auto error = parse_body(text, body);
  if (!error && !context.host.engine()->text()) error = no_tokenizer();
  if (!error) error = read_tokenize(context, body, request);
  if (error) return refuse(*error);
  const uint32_t flags =
      (request.add_special ? COLIBRI_ADD_SPECIAL : 0) | (request.parse_special ? COLIBRI_PARSE_SPECIAL : 0);
  api::TokenIds ids;
  error = tokenize(context, request.text, flags, "content", ids);
  if (error) return refuse(*error);
  HttpResponse answer;
  answer.body = tokens_json(context, ids, request);
  return answer;
}

HttpResponse detokenize(ApiContext& context, const std::string& text) {
  json::value body;
  auto error = parse_body(text, body);
  if (!error) error = expect_object(body);
  if (!error && !context.host.engine()->text()) error = no_tokenizer();
  if (error) return refuse(*error);
  Fields fields(body.get_object());
  const json::array* tokens = fields.array("tokens");
  if (tokens == nullptr) fields.fail("tokens", "missing; an array of token ids");
  if (!fields.ok()) return refuse(*fields.error());
  size_t bad = 0;
  const auto ids = common::token_ids(*tokens, &bad);
  if (!ids) return refuse(bad_request("tokens", "tokens[" + std::to_string(bad) + "] is no token id"));
  const auto content = context.host.engine()->text().detokenize(*ids);
  if (!content) return refuse(api_error_of(content.error(), "tokens"));
  return json_answer(json::object{{"content", *content}, {"prompt", *content}});
}

HttpResponse apply_template(ApiContext& context, const std::string& text) {
  json::value body;
  auto error = parse_body(text, body);
  if (!error) error = expect_object(body);
  if (error) return refuse(*error);
  Fields fields(body.get_object());
  json::object request;
  read_template_members(fields, request);
  if (!fields.ok()) return refuse(*fields.error());
  const auto prompt = render_chat(context, request);
  if (!prompt) return refuse(api_error_of(prompt.error(), "messages"));
  return json_answer(json::object{{"prompt", *prompt}});
}

HttpResponse embeddings(ApiContext&, const std::string&) {
  return refuse({501, "this model makes no embeddings; it generates text", "not_supported", {}, {}, 0});
}

}  // namespace

void add_prepared_route(Router& router, ApiContext& context, const char* path, HttpResponse (*refusal)(const ApiError&),
                        HttpResponse (*answer)(ApiContext& context, const std::string& body)) {
  Route route;
  route.method = "POST";
  route.path = path;
  route.handler = [&context, refusal, answer](HttpRequest request, std::shared_ptr<Responder> responder) {
    if (const auto error = engine_missing(context.host)) return responder->respond(refusal(*error));
    context.preparing.run([&context, refusal, answer, body = std::move(request.body), id = std::move(request.id),
                           responder = std::move(responder)] {
      HttpResponse response;
      try {
        response = answer(context, body);
      } catch (const std::exception& fault) {
        response =
            refusal({500, std::string("the request could not be read: ") + fault.what(), "internal_error", {}, {}, 0});
      }
      responder->post([&context, id, responder, response = std::move(response)] {
        if (response.status == 500) context.log.line(LogLevel::kError, "request " + id + ": " + response.body);
        responder->respond(response);
      });
    });
  };
  router.add(std::move(route));
}

void add_text_routes(Router& router, ApiContext& context) {
  for (const char* path : {"/tokenize", "/v1/tokenize"})
    add_prepared_route(router, context, path, refuse, answer_tokenize);
  for (const char* path : {"/detokenize", "/v1/detokenize"})
    add_prepared_route(router, context, path, refuse, detokenize);
  add_prepared_route(router, context, "/apply-template", refuse, apply_template);
  add_prepared_route(router, context, "/v1/embeddings", refuse, embeddings);
}

}  // namespace colibri::server

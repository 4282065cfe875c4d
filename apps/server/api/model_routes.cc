// GET /v1/models, /models, /v1/models/NAME, /props, /slots, /tokenizer_info.
#include "api_routes.h"
#include "generation.h"

namespace colibri::server {
namespace {

const json::value* member(const json::value* value, const char* name) {
  return value != nullptr && value->is_object() ? value->get_object().if_contains(name) : nullptr;
}

json::value copy_of(const json::value* value) { return value != nullptr ? *value : json::value(nullptr); }

json::object meta_json(const colibri_info& info, const json::value* facts) {
  json::object meta{{"n_vocab", info.vocab_size}, {"n_ctx_train", info.model_context}, {"n_ctx", info.context},
                    {"n_embd", info.hidden_size}, {"n_layer", info.n_layers},          {"n_expert", info.n_experts},
                    {"n_expert_used", info.top_k}};
  if (const json::value* parameters = member(facts, "parameters")) meta["n_params"] = *parameters;
  uint64_t bytes = 0;
  if (const json::value* files = member(facts, "files"); files != nullptr && files->is_array())
    for (const json::value& file : files->get_array())
      if (const json::value* size = member(&file, "bytes"); size != nullptr && size->is_number())
        bytes += size->to_number<uint64_t>();
  if (bytes > 0) meta["size"] = bytes;
  return meta;
}

json::object model_json(const ApiContext& context) {
  json::object model{
      {"id", context.settings.model_name}, {"object", "model"}, {"created", context.started}, {"owned_by", "colibri"}};
  const api::Engine* engine = context.host.engine();
  if (engine == nullptr) return model;
  const colibri_info info = engine->info();
  model["max_model_len"] = info.context;
  model["meta"] = meta_json(info, context.facts().get());
  model["architecture"] = {{"input_modalities", json::array{"text"}}, {"output_modalities", json::array{"text"}}};
  return model;
}

HttpResponse models(const ApiContext& context) {
  json::array data;
  data.push_back(model_json(context));
  return json_answer(json::object{{"object", "list"}, {"data", std::move(data)}});
}

HttpResponse model(const ApiContext& context, const HttpRequest& request) {
  constexpr std::string_view kPrefix = "/v1/models/";
  const std::string name = request.path.substr(kPrefix.size());
  if (name == context.settings.model_name) return json_answer(model_json(context));
  return error_answer({404,
                       "the model \"" + name.substr(0, 100) + "\" does not exist; this server has \"" +
                           context.settings.model_name + "\"",
                       "model_not_found",
                       "model",
                       {},
                       0});
}

json::object sampling_json(const api::Engine& engine) {
  const api::Request request = engine.request();
  return {{"temperature", request.temperature},
          {"top_k", request.top_k},
          {"top_p", request.top_p},
          {"min_p", request.min_p},
          {"repetition_penalty", request.repetition_penalty},
          {"presence_penalty", request.presence_penalty},
          {"frequency_penalty", request.frequency_penalty}};
}

json::object engine_json(const colibri_info& info) {
  return {{"family", info.family},
          {"n_layers", info.n_layers},
          {"n_moe_layers", info.n_moe_layers},
          {"n_experts", info.n_experts},
          {"top_k", info.top_k},
          {"hidden_size", info.hidden_size},
          {"vocab_size", info.vocab_size},
          {"context", info.context},
          {"model_context", info.model_context},
          {"isa", info.isa},
          {"threads", info.threads},
          {"io", info.io},
          {"planned_bytes", info.planned_bytes},
          {"budget_bytes", info.budget_bytes},
          {"load_seconds", info.load_seconds}};
}

HttpResponse props(const ApiContext& context) {
  const api::Engine& engine = *context.host.engine();
  const colibri_info info = engine.info();
  json::object defaults{{"n_ctx", info.context}, {"params", sampling_json(engine)}};
  return json_answer(json::object{{"model_alias", context.settings.model_name},
                                  {"model_path", context.host.model()},
                                  {"build_info", std::string("colibri ") + colibri_version()},
                                  {"total_slots", context.settings.parallel},
                                  {"default_generation_settings", std::move(defaults)},
                                  {"modalities", {{"vision", false}, {"audio", false}}},
                                  {"is_sleeping", false},
                                  {"model", engine_json(info)},
                                  {"settings", context.settings.all}});
}

// One entry for each request that is there, with numbers only: what others ask is none of anybody's business.
HttpResponse slots(const ApiContext& context, const HttpRequest& request) {
  const std::string_view query = request.query;
  if (query.find("fail_on_no_slot=1") != query.npos && context.admission.running() >= context.settings.parallel)
    return error_answer({503, "every slot is in use", "no_slot", {}, {}, context.admission.retry_after_s()});
  json::array list;
  const int32_t n_ctx = context.host.engine()->info().context;
  for (const auto& generation : context.generations()) {
    const Generation::Facts facts = generation->facts();
    list.push_back(json::object{{"id", list.size()},
                                {"id_task", facts.id},
                                {"n_ctx", n_ctx},
                                {"is_processing", facts.running},
                                {"n_answers", facts.n_answers},
                                {"n_prompt_tokens", facts.prompt_tokens},
                                {"n_decoded", facts.generated},
                                {"seconds", facts.seconds}});
  }
  return json_answer(list);
}

json::value token_json(const ApiContext& context, const json::value* id) {
  if (id == nullptr || !id->is_int64() || id->get_int64() < 0) return nullptr;
  return json::value(to_utf8(context.texts.bytes_of(static_cast<int32_t>(id->get_int64()))));
}

// What lm-eval's remote tokenizer asks for.
HttpResponse tokenizer_info(const ApiContext& context) {
  if (!context.host.engine()->text())
    return error_answer(ApiError{404, "this model came without a tokenizer", "no_tokenizer", {}, {}, 0});
  const auto facts = context.facts();
  const json::value* tokenizer = member(facts.get(), "tokenizer");
  const json::value* bos = member(tokenizer, "bos_id");
  const json::value* eos = member(tokenizer, "eos_id");
  return json_answer(json::object{{"tokenizer_class", "colibri"},
                                  {"bos_token", token_json(context, bos)},
                                  {"bos_token_id", copy_of(bos)},
                                  {"eos_token", token_json(context, eos)},
                                  {"eos_token_id", copy_of(eos)},
                                  {"pad_token", token_json(context, eos)},
                                  {"vocab_size", context.host.engine()->info().vocab_size},
                                  {"model_max_length", context.host.engine()->info().context}});
}

}  // namespace

void add_model_routes(Router& router, ApiContext& context) {
  const EngineHost* host = &context.host;
  for (const char* path : {"/v1/models", "/models"})
    add_quick_route(router, "GET", path, Access::kPublic, [&context](const HttpRequest&) { return models(context); });
  add_quick_route(router, "GET", "/v1/models/*", Access::kPublic,
                  [&context](const HttpRequest& request) { return model(context, request); });
  add_quick_route(
      router, "GET", "/props", Access::kKey, [&context](const HttpRequest&) { return props(context); }, host);
  add_quick_route(
      router, "GET", "/slots", Access::kKey, [&context](const HttpRequest& request) { return slots(context, request); },
      host);
  for (const char* path : {"/tokenizer_info", "/v1/tokenizer_info"})
    add_quick_route(
        router, "GET", path, Access::kKey, [&context](const HttpRequest&) { return tokenizer_info(context); }, host);
}

}  // namespace colibri::server

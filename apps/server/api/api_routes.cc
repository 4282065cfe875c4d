#include "api_routes.h"

#include "openapi.h"

namespace colibri::server {
namespace {

// "qwen3-30b" of "/models/qwen3-30b.gguf" and of "/models/qwen3-30b/".
std::string name_of_model(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::string name = path.substr(path.rfind('/') + 1);
  for (const std::string_view end : {".gguf", ".safetensors", ".colibri"})
    if (name.ends_with(end) && name.size() > end.size()) name.resize(name.size() - end.size());
  return name;
}

ApiSettings api_settings(const Site& site) {
  const ServerSettings& given = site.settings;
  ApiSettings settings;
  settings.model_name = given.model_name.empty() ? name_of_model(site.host.model()) : given.model_name;
  settings.strict_model = given.strict_model;
  settings.max_queue = static_cast<size_t>(given.max_queue);
  settings.queue_timeout_s = given.queue_timeout_s;
  settings.keep_alive_ms = given.keep_alive_s * 1000;
  settings.max_tokens = given.max_tokens == 0 ? -1 : given.max_tokens;
  settings.expert_activations = given.expert_activations;
  settings.prefixes_per_client = !given.share_prefixes;
  settings.parallel = static_cast<size_t>(given.parallel);
  for (const common::Setting& one : site.all_settings.all())
    settings.all.push_back(json::object{{"key", one.key}, {"value", one.value}, {"from", one.origin}});
  return settings;
}

class ApiRoutes : public SiteRoutes {
 public:
  explicit ApiRoutes(const Site& site) : context_(site.host, site.log, api_settings(site)) {
    add_generation_routes(site.router, context_);
    add_text_routes(site.router, context_);
    add_model_routes(site.router, context_);
    add_expert_routes(site.router, context_);
    add_page_routes(site.router);
    add_quick_route(site.router, "GET", "/openapi.json", Access::kPublic,
                    [](const HttpRequest&) { return json_answer(openapi_description()); });
    context_.preparing.run([this] { context_.read_facts(); });
  }
  void settle() override { context_.preparing.stop(); }

 private:
  ApiContext context_;
};

}  // namespace

HttpResponse json_answer(const json::value& body) {
  HttpResponse response;
  response.body = common::dump_json(body);
  return response;
}

void add_quick_route(Router& router, std::string_view method, std::string_view path, Access access,
                     std::function<HttpResponse(const HttpRequest&)> answer, const EngineHost* needs) {
  Route route;
  route.method = method;
  route.path = path;
  route.access = access;
  route.handler = [answer = std::move(answer), needs](const HttpRequest& request,
                                                      const std::shared_ptr<Responder>& responder) {
    const auto missing = needs != nullptr ? engine_missing(*needs) : std::nullopt;
    responder->respond(missing ? error_answer(*missing) : answer(request));
  };
  router.add(std::move(route));
}

std::unique_ptr<SiteRoutes> add_api_routes(const Site& site) { return std::make_unique<ApiRoutes>(site); }

}  // namespace colibri::server

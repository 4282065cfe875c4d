// The routes of the API: everything of `colibri serve` besides /health, /ready and /metrics.
//
// Handlers return at once: answers about the model are made where they are called, prompts are prepared on threads of
// their own, and answers of the model are made as its tokens come (generation.h).
#pragma once

#include <memory>
#include <string_view>

#include "context.h"
#include "server/http.h"
#include "server/router.h"
#include "server/serve.h"

namespace colibri::server {

/// Adds all routes to the site's router and says in which shapes their errors are.
std::unique_ptr<SiteRoutes> add_api_routes(const Site& site);

// The parts of it.
void add_generation_routes(Router& router, ApiContext& context);  ///< chat/completions, completions, messages
void add_text_routes(Router& router, ApiContext& context);        ///< tokenize, detokenize, apply-template ...
void add_model_routes(Router& router, ApiContext& context);       ///< models, props, slots
void add_expert_routes(Router& router, ApiContext& context);      ///< experts, experts/stream
void add_page_routes(Router& router);                             ///< / and the files that it names

/// Adds a POST route whose answer is made on a preparing thread, from the body alone.
void add_prepared_route(Router& router, ApiContext& context, const char* path, HttpResponse (*refusal)(const ApiError&),
                        HttpResponse (*answer)(ApiContext& context, const std::string& body));
/// 200 with this body.
HttpResponse json_answer(const json::value& body);
/// Adds a route whose answer is made at once; without an engine it is 503.
void add_quick_route(Router& router, std::string_view method, std::string_view path, Access access,
                     std::function<HttpResponse(const HttpRequest&)> answer, const EngineHost* needs = nullptr);

}  // namespace colibri::server

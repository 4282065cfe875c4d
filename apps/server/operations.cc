#include "operations.h"

#include <algorithm>
#include <cmath>

#include "common/json.h"
#include "common/progress.h"

namespace colibri::server {
namespace {

namespace json = common::json;

json::object progress_json(const EngineHost& host) {
  const EngineHost::Progress progress = host.progress();
  return {{"done_bytes", progress.done_bytes},
          {"total_bytes", progress.total_bytes},
          {"seconds", std::round(progress.seconds * 1000) / 1000}};
}

const char* status_of(const FrontDoor& door, const EngineHost& host) {
  if (host.state() == EngineHost::State::kFailed) return "failed";
  if (host.state() == EngineHost::State::kLoading) return "loading";
  return door.draining() ? "draining" : "ok";
}

// Seconds until it is worth asking again.
int seconds_to_go(const EngineHost::Progress& progress) {
  if (progress.done_bytes == 0 || progress.total_bytes <= progress.done_bytes) return 1;
  const auto done = static_cast<double>(progress.done_bytes), all = static_cast<double>(progress.total_bytes);
  return static_cast<int>(std::clamp(std::ceil(progress.seconds * (all - done) / done), 1.0, 60.0));
}

HttpResponse not_yet(const std::string& status, const EngineHost& host, const ApiError& error) {
  HttpResponse answer = error_answer(error);
  const auto body = common::parse_json(answer.body, "error");
  json::object object{{"status", status}};
  if (status == "loading") object["progress"] = progress_json(host);
  if (body) object["error"] = body->get_object().at("error");
  answer.body = common::dump_json(object);
  return answer;
}

ApiError not_ready(const FrontDoor& door, const EngineHost& host) {
  if (host.state() == EngineHost::State::kLoading) return loading_error(host);
  ApiError error;
  error.status = 503;
  error.retry_after_s = 1;
  error.message = door.draining() ? "the server is shutting down" : host.error().message;
  error.code = door.draining() ? "shutting_down" : "model_failed";
  return error;
}

// Alive: also while it drains.
HttpResponse health(const FrontDoor& door, const EngineHost& host) {
  const std::string status = status_of(door, host);
  if (status == "loading" || status == "failed") return not_yet(status, host, not_ready(door, host));
  HttpResponse answer;
  answer.body = common::dump_json(json::object{{"status", status}, {"running", host.running()}});
  return answer;
}

HttpResponse ready(const FrontDoor& door, const EngineHost& host) {
  const std::string status = status_of(door, host);
  if (status != "ok") return not_yet(status, host, not_ready(door, host));
  HttpResponse answer;
  answer.body = R"({"status": "ok"})";
  return answer;
}

HttpResponse metrics_text(EngineHost& host, const ServerMetrics& metrics) {
  MetricsText text;
  text.family("colibri_build_info", "Version of the program.", "gauge");
  text.sample({{"version", colibri_version()}}, 1);
  text.single("colibri_ready", "1 when the model is loaded.", "gauge", host.engine() != nullptr ? 1 : 0);
  text.single("colibri_sequences_running", "Sequences that routes wait for.", "gauge",
              static_cast<double>(host.running()));
  const auto engine = host.metrics_json();
  // What is not understood must not hide the rest.
  const bool understood = !engine || append_engine_metrics(*engine, text).ok();
  text.single("colibri_metrics_broken", "1 when the engine's metrics were not understood.", "gauge",
              understood ? 0 : 1);
  metrics.append(text);
  append_process_metrics(text);
  HttpResponse answer;
  answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
  answer.body = text.take();
  return answer;
}

void add(Router& router, const char* path, Access access, std::function<HttpResponse()> answer) {
  Route route;
  route.method = "GET";
  route.path = path;
  route.access = access;
  route.while_draining = true;
  route.handler = [answer = std::move(answer)](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
    responder->respond(answer());
  };
  router.add(std::move(route));
}

}  // namespace

ApiError loading_error(const EngineHost& host) {
  const EngineHost::Progress progress = host.progress();
  ApiError error;
  error.status = 503;
  error.code = "model_loading";
  error.retry_after_s = seconds_to_go(progress);
  error.message = "the model is being loaded";
  if (progress.total_bytes > 0)
    error.message +=
        ": " + common::human_bytes(progress.done_bytes) + " of " + common::human_bytes(progress.total_bytes);
  return error;
}

void add_operation_routes(Router& router, const FrontDoor& door, EngineHost& host, const ServerMetrics& metrics) {
  for (const char* path : {"/health", "/v1/health"})
    add(router, path, Access::kPublic, [&door, &host] { return health(door, host); });
  add(router, "/ready", Access::kPublic, [&door, &host] { return ready(door, host); });
  add(router, "/metrics", Access::kKey, [&host, &metrics] { return metrics_text(host, metrics); });
}

}  // namespace colibri::server

// GET /v1/experts, GET /v1/experts/stream.
#include <chrono>

#include "api_routes.h"
#include "expert_frames.h"

namespace colibri::server {
namespace {

constexpr int kFrameMs = 100;
constexpr double kKeepAliveSeconds = 5;
constexpr int kMostStreams = 32;

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ExpertShape shape_of(const api::Engine& engine) {
  const colibri_info info = engine.info();
  ExpertShape shape;
  shape.layers = static_cast<size_t>(info.n_moe_layers);
  shape.experts = static_cast<size_t>(info.n_experts);
  shape.top_k = info.top_k;
  shape.layer_numbers = engine.moe_layers();
  return shape;
}

// The sum over a family's samples in the engine's metrics.
uint64_t counter(const json::array& metrics, std::string_view name) {
  double sum = 0;
  for (const json::value& metric : metrics) {
    if (!metric.is_object() || metric.get_object().if_contains("name") == nullptr ||
        metric.at("name") != json::string_view(name.data(), name.size()))
      continue;
    const json::value* samples = metric.get_object().if_contains("samples");
    if (samples == nullptr || !samples->is_array()) continue;
    for (const json::value& sample : samples->get_array()) {
      const json::value* value = sample.is_object() ? sample.get_object().if_contains("value") : nullptr;
      if (value != nullptr && value->is_number()) sum += value->to_number<double>();
    }
  }
  return static_cast<uint64_t>(sum);
}

api::Outcome<ExpertSnapshot> snapshot(const EngineHost& host) {
  const colibri_info info = host.engine()->info();
  const size_t n = static_cast<size_t>(info.n_moe_layers) * static_cast<size_t>(info.n_experts);
  ExpertSnapshot now;
  now.activations.resize(n);
  now.residency.resize(n);
  now.seconds = monotonic_seconds();
  colibri_error error{};
  const colibri_status status =
      colibri_engine_experts(host.engine()->handle(), now.activations.data(), now.residency.data(), n, &error);
  if (status != COLIBRI_OK) return api::Error{status, error.message};
  const auto text = host.metrics_json();
  const auto metrics = text ? common::parse_json(*text, "metrics") : common::Outcome<json::value>(json::value(nullptr));
  if (!metrics.ok() || !metrics->is_array()) return now;
  const json::array& list = metrics->get_array();
  now.hits = counter(list, "expert_hits_total");
  now.misses = counter(list, "expert_misses_total");
  now.bytes_read = counter(list, "expert_read_bytes_total");
  now.tokens = counter(list, "generated_tokens_total");
  return now;
}

HttpResponse experts(const ApiContext& context) {
  const auto now = snapshot(context.host);
  if (!now) return error_answer(api_error_of(now.error(), {}));
  const ExpertShape shape = shape_of(*context.host.engine());
  json::array layers;
  for (size_t layer = 0; layer < shape.layers; ++layer) {
    json::array counts, places;
    for (size_t e = layer * shape.experts; e < (layer + 1) * shape.experts; ++e) {
      counts.push_back(json::value(now->activations[e]));
      places.push_back(static_cast<int64_t>(now->residency[e]));
    }
    layers.push_back(json::object{
        {"layer", shape.layer_numbers[layer]}, {"activations", std::move(counts)}, {"residency", std::move(places)}});
  }
  return json_answer(json::object{{"n_experts", shape.experts},
                                  {"top_k", shape.top_k},
                                  {"residency", {{"0", "disk"}, {"1", "memory"}, {"2", "being read"}}},
                                  {"hits", now->hits},
                                  {"misses", now->misses},
                                  {"bytes_read", now->bytes_read},
                                  {"layers", std::move(layers)}});
}

// One reader's stream. A slow reader gets fewer frames, each of which holds what the lost ones did.
class ExpertStream : public std::enable_shared_from_this<ExpertStream> {
 public:
  ExpertStream(ApiContext& context, std::shared_ptr<Responder> responder, std::shared_ptr<void> place)
      : context_(context),
        responder_(std::move(responder)),
        place_(std::move(place)),
        frames_(shape_of(*context.host.engine())) {}

  void start() {
    const auto self = shared_from_this();  // the connection's callbacks keep the stream
    responder_->on_gone([self] { self->over_ = true; });
    responder_->on_shutdown([self] { self->end(); });
    responder_->begin_stream();
    tick();
  }

 private:
  void end() {
    over_ = true;
    responder_->end_stream();
  }

  void tick() {
    if (over_) return;
    if (responder_->queued_bytes() == 0) write_frame();
    if (over_) return;
    responder_->post_later(kFrameMs, [self = shared_from_this()] { self->tick(); });
  }

  void write_frame() {
    auto now = snapshot(context_.host);
    if (!now) {
      responder_->write("data: " + openai_error(api_error_of(now.error(), {})) + "\n\n");
      return end();
    }
    const double seconds = now->seconds;
    const auto frame = frames_.next(*std::move(now));
    if (!frame && seconds - written_s_ < kKeepAliveSeconds) return;
    written_s_ = seconds;
    responder_->write(frame ? "data: " + common::dump_json(*frame) + "\n\n" : std::string(": keep-alive\n\n"));
  }

  ApiContext& context_;
  const std::shared_ptr<Responder> responder_;
  const std::shared_ptr<void> place_;
  ExpertFrames frames_;
  double written_s_ = 0;
  bool over_ = false;
};

// One of at most so many streams; null when there are no more.
std::shared_ptr<void> take_place(const std::shared_ptr<std::atomic<int>>& streams) {
  if (++*streams > kMostStreams) {
    --*streams;
    return nullptr;
  }
  return {streams.get(), [streams](void*) { --*streams; }};
}

}  // namespace

void add_expert_routes(Router& router, ApiContext& context) {
  add_quick_route(
      router, "GET", "/v1/experts", Access::kKey, [&context](const HttpRequest&) { return experts(context); },
      &context.host);
  Route route;
  route.method = "GET";
  route.path = "/v1/experts/stream";
  route.handler = [&context, streams = std::make_shared<std::atomic<int>>(0)](
                      const HttpRequest&, const std::shared_ptr<Responder>& responder) {
    if (const auto error = engine_missing(context.host)) return responder->respond(error_answer(*error));
    auto place = take_place(streams);
    if (!place)
      return responder->respond(
          error_answer({429,
                        "at most " + std::to_string(kMostStreams) + " of these streams are open at a time",
                        "too_many_streams",
                        {},
                        {},
                        5}));
    std::make_shared<ExpertStream>(context, responder, std::move(place))->start();
  };
  router.add(std::move(route));
}

}  // namespace colibri::server

// The server with routes that tests can predict instead of the API: colibri-http-probe serve MODEL [FLAGS of serve].
//
// POST /echo gives the body back; POST /stream?frames=N&bytes=B&delay=MS sends frames and looks at queued_bytes() as a
// good handler does; POST /flood does not look; POST /hold answers nothing, so the client or the server must end it;
// /forget drops its Responder and /throw throws.
#include <charconv>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "common/signals.h"
#include "server/serve.h"
#include "server/server_settings.h"

namespace colibri::server {
namespace {

size_t number_in(const std::string& query, const std::string& name, size_t otherwise) {
  const size_t at = ("&" + query).find("&" + name + "=");
  size_t value = otherwise;
  if (at != std::string::npos) std::from_chars(query.data() + at + name.size() + 1, query.data() + query.size(), value);
  return value;
}

// Sends its frames while little is queued, and goes on when that was taken.
struct Frames : std::enable_shared_from_this<Frames> {
  static constexpr size_t kBound = 64 << 10;
  std::shared_ptr<Responder> responder;
  size_t frames = 0, bytes = 0, sent = 0;
  int delay_ms = 0;

  void begin() {
    responder->begin_stream();
    responder->on_gone([self = shared_from_this()] { self->responder.reset(); });
    responder->on_drained([self = shared_from_this()] { self->send(); });
    send();
  }
  void send() {
    while (responder && sent < frames && responder->queued_bytes() < kBound) {
      std::string frame = "data: " + std::to_string(sent++) + " ";
      responder->write(frame.append(bytes, 'x') + "\n\n");
      if (delay_ms > 0) return responder->post_later(delay_ms, [self = shared_from_this()] { self->send(); });
    }
    if (responder && sent == frames) std::exchange(responder, nullptr)->end_stream();
  }
};

void add(const Site& site, const char* method, const char* path, Handler handler) {
  Route route;
  route.method = method;
  route.path = path;
  route.handler = std::move(handler);
  site.router.add(std::move(route));
}

void echo(const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
  HttpResponse answer;
  answer.content_type = "application/octet-stream";
  answer.body = request.body;
  answer.headers = {{"x-client", request.client}, {"x-query", request.query}, {"x-path", request.path}};
  responder->respond(std::move(answer));
}

void stream(const HttpRequest& request, std::shared_ptr<Responder> responder) {
  const auto frames = std::make_shared<Frames>();
  frames->responder = std::move(responder);
  frames->frames = number_in(request.query, "frames", 3);
  frames->bytes = number_in(request.query, "bytes", 10);
  frames->delay_ms = static_cast<int>(number_in(request.query, "delay", 0));
  frames->begin();
}

void flood(const HttpRequest&, const std::shared_ptr<Responder>& responder) {
  responder->begin_stream();
  for (int i = 0; i < 100; ++i) responder->write(std::string(1 << 20, 'x'));
  responder->end_stream();
}

// With ?shutdown=1 it has words of its own for the end of the server.
void hold(const HttpRequest& request, std::shared_ptr<Responder> responder, Log& log) {
  const auto held = std::make_shared<std::shared_ptr<Responder>>(std::move(responder));
  if (number_in(request.query, "stream", 0) != 0) (*held)->begin_stream();
  if (number_in(request.query, "shutdown", 0) != 0) {
    (*held)->on_shutdown([held] {
      (*held)->write("event: error\ndata: {}\n\n");
      std::exchange(*held, nullptr)->end_stream();
    });
  }
  (*held)->count_tokens(7, 2, 3);
  (*held)->on_gone([held, &log] {
    log.line(LogLevel::kInfo, "probe: gone");
    held->reset();
  });
}

std::unique_ptr<SiteRoutes> add_probe_routes(const Site& site) {
  add(site, "POST", "/echo", echo);
  add(site, "PUT", "/echo", echo);
  add(site, "GET", "/echo", echo);
  add(site, "POST", "/stream", stream);
  add(site, "POST", "/flood", flood);
  add(site, "POST", "/hold", [&log = site.log](const HttpRequest& request, std::shared_ptr<Responder> responder) {
    hold(request, std::move(responder), log);
  });
  add(site, "POST", "/forget", [](const HttpRequest&, const std::shared_ptr<Responder>&) {});
  add(site, "POST", "/throw",
      [](const HttpRequest&, const std::shared_ptr<Responder>&) { throw std::runtime_error("thrown by the probe"); });
  add(site, "GET", "/deep/*", echo);
  site.router.shape_errors("/deep",
                           [](const ApiError& error) { return "{\"deep\": " + std::to_string(error.status) + "}"; });
  return nullptr;
}

// "--key value" and "--key=value" to settings; the tests use nothing else.
common::SettingsSources sources_of(int argc, char** argv) {
  common::SettingsSources sources;
  for (int i = 3; i < argc; ++i) {
    std::string key = std::string(argv[i]).substr(2), value;
    if (const size_t equals = key.find('='); equals != key.npos) {
      value = key.substr(equals + 1);
      key.resize(equals);
    } else if (i + 1 < argc) {
      value = argv[++i];
    }
    for (char& c : key)
      if (c == '-') c = '_';
    sources.flags.emplace_back(key, value);
  }
  return sources;
}

int probe(int argc, char** argv) {
  common::exit_on_signals();
  common::watch_signals();
  common::StandardOutput out;
  const common::Status served = serve(argc > 2 ? argv[2] : "", sources_of(argc, argv), add_probe_routes, out);
  common::settle_signals();
  if (common::interrupted() != 0) return 128 + common::interrupted();
  if (served.ok()) return 0;
  std::fprintf(stderr, "colibri: %s\n", served.error().message.c_str());
  return served.error().exit_code();
}

}  // namespace
}  // namespace colibri::server

int main(int argc, char** argv) { return colibri::server::probe(argc, argv); }

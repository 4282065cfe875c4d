#include "serve.h"

#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>

#include "common/signals.h"
#include "engine_host.h"
#include "front_door.h"
#include "http_server.h"
#include "http_text.h"
#include "operations.h"
#include "server_settings.h"

namespace colibri::server {
namespace {

using common::Outcome;
using common::Settings;
using common::Status;

constexpr std::chrono::seconds kLastWords{5};  // for answers that were ended to reach their clients

// What signals and the loading thread tell the thread that waits.
class Inbox {
 public:
  struct Mail {
    bool stop = false, hangup = false, settled = false;
    bool any() const { return stop || hangup || settled; }
  };
  void put(bool Mail::*what) {
    const std::lock_guard lock(mutex_);
    mail_.*what = true;
    arrived_.notify_one();
  }
  Mail wait() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return mail_.any(); });
    return std::exchange(mail_, Mail{});
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  Mail mail_;
};

DoorRules rules_of(const ServerSettings& settings) {
  DoorRules rules;
  rules.allowed_hosts = settings.allowed_host;
  if (const auto name = host_name(settings.host)) rules.allowed_hosts.push_back(*name);
  for (std::string& host : rules.allowed_hosts) {
    if (const auto name = host_name(host)) host = *name;
  }
  rules.trusted_proxies = settings.trusted_proxy;
  rules.cors_origins = settings.cors_origin;
  rules.requests_at_a_time = settings.client_requests;
  rules.requests_per_minute = settings.client_rate;
  return rules;
}

// Everything that lives as long as the server, in the order in which it depends on each other.
class Server {
 public:
  Server(std::string model, common::SettingsSources sources, const Settings& settings, const AddRoutes& add_routes)
      : sources_(std::move(sources)),
        settings_(server_settings(settings)),
        log_(STDERR_FILENO, settings_.log_json),
        door_(router_, keys_, rules_of(settings_)),
        host_(std::move(model), settings.chosen(), log_) {
    log_.set_level(log_level_of(settings.at("log_level").value));
    add_operation_routes(router_, door_, host_, metrics_);
    routes_ = add_routes({router_, host_, settings_, settings, metrics_, log_});
  }

  Status open(common::StandardOutput& out);
  Status run();
  void ask_to_stop() { inbox_.put(&Inbox::Mail::stop); }
  void ask_to_reload() { inbox_.put(&Inbox::Mail::hangup); }

 private:
  Status load_keys();
  void reload();
  void report_ready();
  void drain();
  void close_http();

  const common::SettingsSources sources_;
  const ServerSettings settings_;
  Inbox inbox_;
  Log log_;
  ServerMetrics metrics_;
  ApiKeys keys_;
  Router router_;
  FrontDoor door_;
  EngineHost host_;
  std::unique_ptr<SiteRoutes> routes_;
  std::unique_ptr<HttpServer> http_;  // first to go: its handlers use all of the above
};

Status Server::load_keys() {
  if (settings_.api_key_file.empty()) return {};
  const auto count = keys_.load(settings_.api_key_file);
  if (!count) return count.error();
  log_.line(LogLevel::kInfo, std::to_string(*count) + " API keys in " + settings_.api_key_file);
  return {};
}

Status Server::open(common::StandardOutput& out) {
  if (const Status loaded = load_keys(); !loaded) return loaded;
  auto http = HttpServer::open(settings_, settings_.insecure || !keys_.empty(), door_, metrics_, log_);
  if (!http) return http.error();
  http_ = std::move(*http);
  http_->run();
  for (const std::string& url : http_->urls()) {
    if (const Status written = out.write("listening on " + url + "\n"); !written) return written;
  }
  return out.flush();
}

// Keys and the level of the log; what is bad stays as it was.
void Server::reload() {
  if (const Status loaded = load_keys(); !loaded)
    log_.line(LogLevel::kError, "SIGHUP: the API keys stay as they were: " + loaded.error().message);
  const auto settings = Settings::load(sources_);
  if (!settings) {
    log_.line(LogLevel::kError, "SIGHUP: the log level stays as it was: " + settings.error().message);
    return;
  }
  const std::string& level = settings->at("log_level").value;
  log_.line(LogLevel::kInfo, "SIGHUP: log level " + level);
  log_.set_level(log_level_of(level));
}

void Server::report_ready() {
  const colibri_info info = host_.engine()->info();
  log_.line(LogLevel::kInfo, "ready: " + std::string(info.family) + ", context " + std::to_string(info.context) +
                                 " of " + std::to_string(info.model_context) + ", " + std::to_string(info.threads) +
                                 " threads, " + info.isa + ", loaded in " + std::to_string(info.load_seconds) + " s");
}

void Server::close_http() {
  if (routes_) routes_->settle();
  http_.reset();
}

void Server::drain() {
  door_.drain();
  http_->stop_listening();
  log_.line(LogLevel::kInfo, "shutting down: " + std::to_string(metrics_.running_requests) + " requests are running, " +
                                 std::to_string(settings_.drain_timeout_s) + " s are left");
  if (!http_->wait_answers(std::chrono::seconds(settings_.drain_timeout_s))) {
    log_.line(LogLevel::kWarn, std::to_string(metrics_.running_requests) + " requests are ended");
    http_->end_answers();
    http_->wait_answers(kLastWords);
  }
  host_.stop_loading();
  host_.cancel_all();
  close_http();
  if (host_.engine() == nullptr) return;
  if (const auto saved = host_.engine()->save_prefixes(); !saved)
    log_.line(LogLevel::kWarn, "computed prefixes were not saved: " + saved.error().message);
}

Status Server::run() {
  host_.start([this] { inbox_.put(&Inbox::Mail::settled); });
  for (;;) {
    const Inbox::Mail mail = inbox_.wait();
    if (mail.hangup) reload();
    if (mail.stop) break;
    if (!mail.settled) continue;
    if (host_.state() == EngineHost::State::kFailed) {
      close_http();
      return host_.error();
    }
    report_ready();
  }
  drain();
  common::clear_interrupt();
  return {};
}

}  // namespace

Status serve(const std::string& model, common::SettingsSources sources, const AddRoutes& add_routes,
             common::StandardOutput& out) {
  sources.own = setting_rows();
  sources.defaults = engine_defaults();
  const auto settings = Settings::load(sources);
  if (!settings) return settings.error();
  Server server(model, std::move(sources), *settings, add_routes);
  const common::SignalHandlers signals([&] { server.ask_to_stop(); }, [&] { server.ask_to_reload(); });
  if (const Status opened = server.open(out); !opened) return opened;
  return server.run();
}

}  // namespace colibri::server

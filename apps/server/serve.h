// colibri serve: the server from its settings to its end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/output.h"
#include "common/settings.h"
#include "engine_host.h"
#include "metrics.h"
#include "router.h"
#include "server_settings.h"

namespace colibri::server {

/// What routes are made of. All of it outlives them.
struct Site {
  Router& router;
  EngineHost& host;
  const ServerSettings& settings;
  const common::Settings& all_settings;
  const ServerMetrics& metrics;
  Log& log;
};
/// Routes and what they need; destroyed after the last connection, before the engine.
class SiteRoutes {
 public:
  virtual ~SiteRoutes() = default;
  /// Ends what runs on threads of their own, before connections are closed.
  virtual void settle() = 0;
};
using AddRoutes = std::function<std::unique_ptr<SiteRoutes>(const Site& site)>;

/// Listens, loads the model, answers until a signal asks to stop, lets running answers end. `sources`: without the
/// server's own rows, which are added here. `add_routes` adds what there is besides /health, /ready and /metrics.
/// REQUIRES: watch_signals() was called.
common::Status serve(const std::string& model, common::SettingsSources sources, const AddRoutes& add_routes,
                     common::StandardOutput& out);

}  // namespace colibri::server

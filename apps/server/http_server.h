// Listens, accepts, and runs the threads that connections live on.
//
// Opened before the model is loaded. Its threads read, write and call handlers; they never compute. At its end the
// owner calls, in this order, stop_listening(), wait_answers() and where that was not enough end_answers(); the
// destructor closes what is left. Thread-safety: the owner's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/failure.h"
#include "front_door.h"
#include "log.h"
#include "metrics.h"
#include "server_settings.h"

namespace colibri::server {

class HttpServer {
 public:
  /// Listens on settings.host and port; connections wait until run(). Exit 1 when that is not possible, 2 when other
  /// machines could come in although there are no keys (`open_to_all`: they may).
  static common::Outcome<std::unique_ptr<HttpServer>> open(const ServerSettings& settings, bool open_to_all,
                                                           FrontDoor& door, ServerMetrics& metrics, Log& log);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "http://127.0.0.1:8080", one for each address.
  const std::vector<std::string>& urls() const;
  void run();

  /// No new connections; those that wait for a request are closed, the others after their answer.
  void stop_listening();
  /// Whether no request is running any more; waits for that up to `timeout`.
  bool wait_answers(std::chrono::milliseconds timeout);
  /// Ends every answer with an error.
  void end_answers();

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace colibri::server

// What one client may ask at a time and per minute.
//
// Thread-safe. A client's rate is a bucket that holds one minute's requests and fills steadily. Clients that have
// nothing running and a full bucket are forgotten, so that addresses do not pile up.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace colibri::server {

class ClientLimits {
 public:
  using Clock = std::chrono::steady_clock;
  /// 0: no limit.
  ClientLimits(int at_a_time, int per_minute) : at_a_time_(at_a_time), per_minute_(per_minute) {}

  struct Answer {
    bool admitted = false;
    std::shared_ptr<void> place;  ///< held while the request runs
    std::string refusal;          ///< a line for people
    int retry_after_s = 0;
  };
  /// The limits must live longer than the place.
  Answer enter(const std::string& client, Clock::time_point now);
  size_t clients() const;

 private:
  struct Client {
    int running = 0;
    double tokens = 0;
    Clock::time_point filled;
  };
  void leave(const std::string& client);
  void forget_idle(Clock::time_point now);

  const int at_a_time_, per_minute_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Client> clients_;
  size_t forget_at_ = 1024;
};

}  // namespace colibri::server

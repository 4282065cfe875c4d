#include "client_limits.h"

#include <algorithm>
#include <cmath>

namespace colibri::server {
namespace {

double seconds_between(ClientLimits::Clock::time_point from, ClientLimits::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

ClientLimits::Answer ClientLimits::enter(const std::string& client, Clock::time_point now) {
  if (at_a_time_ == 0 && per_minute_ == 0) return {true, nullptr, {}, 0};
  const std::lock_guard lock(mutex_);
  if (clients_.size() >= forget_at_) forget_idle(now);
  const double full = per_minute_, rate = full / 60;
  auto [at, is_new] = clients_.try_emplace(client, Client{0, full, now});
  Client& state = at->second;
  state.tokens = std::min(full, state.tokens + rate * seconds_between(state.filled, now));
  state.filled = now;
  if (at_a_time_ > 0 && state.running >= at_a_time_)
    return {false, nullptr,
            "this client has " + std::to_string(state.running) + " requests running, " + std::to_string(at_a_time_) +
                " are allowed; wait for one to end",
            1};
  if (per_minute_ > 0 && state.tokens < 1)
    return {false, nullptr, "this client may send " + std::to_string(per_minute_) + " requests per minute",
            std::max(1, static_cast<int>(std::ceil((1 - state.tokens) / rate)))};
  state.tokens -= 1;
  state.running += 1;
  return {true, std::shared_ptr<void>(nullptr, [this, client](void*) { leave(client); }), {}, 0};
}

void ClientLimits::leave(const std::string& client) {
  const std::lock_guard lock(mutex_);
  if (const auto at = clients_.find(client); at != clients_.end()) at->second.running -= 1;
}

// Costs what it frees, on average: the next time is when there are twice as many.
void ClientLimits::forget_idle(Clock::time_point now) {
  std::erase_if(clients_, [&](const auto& entry) {
    return entry.second.running == 0 && seconds_between(entry.second.filled, now) > 60;
  });
  forget_at_ = std::max<size_t>(1024, 2 * clients_.size());
}

size_t ClientLimits::clients() const {
  const std::lock_guard lock(mutex_);
  return clients_.size();
}

}  // namespace colibri::server

#include "common/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <vector>

namespace colibri::common {
namespace {

// The one thing of this program that is global, because signals are.
struct State {
  std::mutex mutex;
  std::atomic<int> signal{0};
  int scopes = 0;
  bool watching = false;
  uint64_t asked = 0, settled = 0;  // settle_signals()
  std::condition_variable settled_changed;
  std::vector<colibri_sequence*> sequences;
  std::vector<const std::function<void()>*> hooks;
  const SignalHandlers* handlers = nullptr;
};

State& state() {
  static State* const instance = new State;  // never destroyed: the signal thread outlives main
  return *instance;
}

[[noreturn]] void end_at_once(State& s, int signal) {
  for (const auto* hook : s.hooks) (*hook)();
  _exit(128 + signal);
}

void on_signal(int signal) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (signal == SIGHUP && s.handlers != nullptr) return s.handlers->hangup();
  if (s.scopes == 0 || s.signal != 0) end_at_once(s, signal);
  s.signal = signal;
  if (s.handlers != nullptr) s.handlers->stop();
  for (colibri_sequence* sequence : s.sequences) colibri_cancel(sequence);
}

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP};

// Sent to ourselves. Pending signals are taken in the order of their numbers, and this one's is higher than the
// others'.
int settle_signal() { return SIGRTMIN; }

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kEnding) sigaddset(&set, signal);
  sigaddset(&set, settle_signal());
  return set;
}

void settle(State& s) {
  const std::lock_guard lock(s.mutex);
  s.settled = s.asked;
  s.settled_changed.notify_all();
}

[[noreturn]] void watch(sigset_t set) {
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    signal == settle_signal() ? settle(state()) : on_signal(signal);
  }
}

extern "C" void end_by_signal(int signal) { _exit(128 + signal); }

template <typename T>
void erase_one(std::vector<T>& items, const T& item) {
  const auto found = std::find(items.begin(), items.end(), item);
  if (found != items.end()) items.erase(found);
}

}  // namespace

void exit_on_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int signal : kEnding) std::signal(signal, end_by_signal);
}

void watch_signals() {
  const sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread(watch, set).detach();
  const std::lock_guard lock(state().mutex);
  state().watching = true;
}

void settle_signals() {
  State& s = state();
  std::unique_lock lock(s.mutex);
  if (!s.watching) return;
  const uint64_t ticket = ++s.asked;
  ::kill(getpid(), settle_signal());
  s.settled_changed.wait_for(lock, std::chrono::seconds(1), [&] { return s.settled >= ticket; });
}

int interrupted() { return state().signal.load(); }
void clear_interrupt() { state().signal = 0; }

InterruptScope::InterruptScope() {
  const std::lock_guard lock(state().mutex);
  ++state().scopes;
}

InterruptScope::~InterruptScope() {
  const std::lock_guard lock(state().mutex);
  --state().scopes;
}

CancelOnInterrupt::CancelOnInterrupt(const api::Sequence& sequence) : sequence_(sequence.handle()) {
  const std::lock_guard lock(state().mutex);
  state().sequences.push_back(sequence_);
  if (state().signal != 0) colibri_cancel(sequence_);
}

CancelOnInterrupt::~CancelOnInterrupt() {
  const std::lock_guard lock(state().mutex);
  erase_one(state().sequences, sequence_);
}

SignalHandlers::SignalHandlers(std::function<void()> on_stop, std::function<void()> on_hangup)
    : on_stop_(std::move(on_stop)), on_hangup_(std::move(on_hangup)) {
  const std::lock_guard lock(state().mutex);
  state().handlers = this;
}

SignalHandlers::~SignalHandlers() {
  const std::lock_guard lock(state().mutex);
  state().handlers = nullptr;
}

ExitHook::ExitHook(std::function<void()> hook) : hook_(std::move(hook)) {
  const std::lock_guard lock(state().mutex);
  state().hooks.push_back(&hook_);
}

ExitHook::~ExitHook() {
  const std::lock_guard lock(state().mutex);
  erase_one<const std::function<void()>*>(state().hooks, &hook_);
}

}  // namespace colibri::common

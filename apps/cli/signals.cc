#include "signals.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>
#include <vector>

namespace colibri::cli {
namespace {

// The one thing of this program that is global, because signals are.
struct State {
  std::mutex mutex;
  std::atomic<int> signal{0};
  int scopes = 0;
  std::vector<colibri_sequence*> sequences;
  std::vector<const std::function<void()>*> hooks;
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
  if (s.scopes == 0 || s.signal != 0) end_at_once(s, signal);
  s.signal = signal;
  for (colibri_sequence* sequence : s.sequences) colibri_cancel(sequence);
}

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

template <typename T>
void erase_one(std::vector<T>& items, const T& item) {
  const auto found = std::find(items.begin(), items.end(), item);
  if (found != items.end()) items.erase(found);
}

}  // namespace

void start_signal_thread() {
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([set] {
    for (;;) {
      int signal = 0;
      if (sigwait(&set, &signal) == 0) on_signal(signal);
    }
  }).detach();
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

ExitHook::ExitHook(std::function<void()> hook) : hook_(std::move(hook)) {
  const std::lock_guard lock(state().mutex);
  state().hooks.push_back(&hook_);
}

ExitHook::~ExitHook() {
  const std::lock_guard lock(state().mutex);
  erase_one<const std::function<void()>*>(state().hooks, &hook_);
}

}  // namespace colibri::cli

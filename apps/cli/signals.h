// Ctrl-C and friends.
//
// SIGINT, SIGTERM and SIGHUP are blocked in every thread and read by one thread of ours, so no code runs inside a
// signal handler. While an InterruptScope lives, the first signal only asks: interrupted() becomes the signal's number
// and the sequences in scope are cancelled. A second signal, or one outside any scope, runs the exit hooks and ends the
// program with 128 + signal at once. SIGPIPE is ignored: writing to a reader that went away gives an error instead.
// Thread-safety: everything here may be called from any thread.
#pragma once

#include <functional>

#include "colibri/colibri.hpp"

namespace colibri::cli {

/// REQUIRES: called once, before any other thread exists.
void start_signal_thread();

/// The signal that asked to stop, 0 when none did.
int interrupted();
/// Forgets it: chat goes on after an answer was stopped.
void clear_interrupt();

class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

/// Cancels the sequence on a signal, for as long as this lives. REQUIRES: the sequence lives longer.
class CancelOnInterrupt {
 public:
  explicit CancelOnInterrupt(const api::Sequence& sequence);
  ~CancelOnInterrupt();
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;

 private:
  InterruptScope scope_;
  colibri_sequence* sequence_;
};

/// Runs when a signal ends the program at once: removes a half-written file, gives the terminal its modes back.
class ExitHook {
 public:
  explicit ExitHook(std::function<void()> hook);
  ~ExitHook();
  ExitHook(const ExitHook&) = delete;
  ExitHook& operator=(const ExitHook&) = delete;

 private:
  std::function<void()> hook_;
};

}  // namespace colibri::cli

// Ctrl-C and friends.
//
// At first SIGINT, SIGTERM and SIGHUP end the program with 128 + signal. Commands that have something to stop or to
// clean up call watch_signals(): from then on these signals are blocked in every thread and read by one thread of ours,
// so no code runs inside a signal handler. While an InterruptScope lives, the first signal only asks: interrupted()
// becomes the signal's number and the sequences in scope are cancelled. A second signal, or one outside any scope, runs
// the exit hooks and ends the program with 128 + signal at once. SIGPIPE and SIGXFSZ are ignored: writing to a reader
// that went away, or beyond the limit of a file's size, gives an error instead. A server has SignalHandlers: its first
// signal and every SIGHUP call it. Thread-safety: everything here may be called from any thread.
#pragma once

#include <functional>

#include "colibri/colibri.hpp"

namespace colibri::common {

/// For the start of the program; needs no thread.
void exit_on_signals();
/// REQUIRES: called once, before any other thread exists. Throws std::system_error when no thread can be started.
void watch_signals();
/// Returns after every signal that came before the call was dealt with; at once without watch_signals().
void settle_signals();

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

/// While this lives, the first SIGINT or SIGTERM asks to stop, and SIGHUP asks for something else. Both are called on
/// the thread of the signals, must be quick, and must not call anything of this header. There is one of these at a
/// time.
class SignalHandlers {
 public:
  SignalHandlers(std::function<void()> on_stop, std::function<void()> on_hangup);
  ~SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;
  void stop() const { on_stop_(); }
  void hangup() const { on_hangup_(); }

 private:
  InterruptScope scope_;
  std::function<void()> on_stop_, on_hangup_;
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

}  // namespace colibri::common

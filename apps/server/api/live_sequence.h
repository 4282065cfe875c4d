// LiveSequence: a sequence of the engine as the routes hold it: its events, its notify, the experts it used.
//
// Belongs to one thread at a time, the connection's strand. `notify` is called from the engine's thread. Destroying one
// that counts experts and has not ended waits for the engine's present step: bury it (workers.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "server/engine_host.h"

namespace colibri::server {

class LiveSequence {
 public:
  struct Options {
    std::function<void()> notify;  ///< an event came where there was none; must not call the library
    bool count_experts = false;
  };
  /// `request`: everything but notify and routing, which are set here.
  static api::Outcome<std::unique_ptr<LiveSequence>> submit(EngineHost& host, colibri_request request, Options options);
  ~LiveSequence();
  LiveSequence(const LiveSequence&) = delete;
  LiveSequence& operator=(const LiveSequence&) = delete;

  /// The next event that is there already; kind COLIBRI_EVENT_NONE when there is none.
  colibri_event next();
  void cancel() { colibri_cancel(handle_); }
  /// How often each expert was chosen, [layers][experts], of all decoder layers; empty unless wanted. REQUIRES: END
  /// came.
  const std::vector<uint32_t>& experts() const { return experts_; }

 private:
  LiveSequence(Options options, const colibri_info& info);
  static int on_routing(void* user, int32_t layer, int32_t first, int32_t n, const int32_t* ids, const float* weights,
                        int32_t top_k);

  Options options_;
  int32_t n_experts_ = 0;
  std::vector<uint32_t> experts_;
  colibri_sequence* handle_ = nullptr;
  std::unique_ptr<RunningSequence> running_;
};

}  // namespace colibri::server

#include "live_sequence.h"

namespace colibri::server {

LiveSequence::LiveSequence(Options options, const colibri_info& info)
    : options_(std::move(options)), n_experts_(info.n_experts) {
  if (options_.count_experts) experts_.resize(static_cast<size_t>(info.n_layers) * static_cast<size_t>(info.n_experts));
}

LiveSequence::~LiveSequence() {
  running_.reset();
  colibri_sequence_free(handle_);
}

api::Outcome<std::unique_ptr<LiveSequence>> LiveSequence::submit(EngineHost& host, colibri_request request,
                                                                 Options options) {
  std::unique_ptr<LiveSequence> live(new LiveSequence(std::move(options), host.engine()->info()));
  if (live->options_.notify) {
    request.notify = [](void* user) { static_cast<LiveSequence*>(user)->options_.notify(); };
    request.notify_user = live.get();
  }
  if (live->options_.count_experts) {
    request.routing = on_routing;
    request.routing_user = live.get();
  }
  colibri_error error{};
  const colibri_status status = colibri_submit(host.engine()->handle(), &request, &live->handle_, &error);
  if (status != COLIBRI_OK) return api::Error{status, error.message};
  live->running_ = std::make_unique<RunningSequence>(host, live->handle_);
  return live;
}

colibri_event LiveSequence::next() {
  colibri_event event{};
  event.struct_size = sizeof(event);
  colibri_error error{};
  const colibri_status status = colibri_next_event(handle_, 0, &event, &error);
  if (status == COLIBRI_OK) return event;
  event.kind = COLIBRI_EVENT_END;
  event.status = status;
  event.finish_reason = "error";
  event.error = "reading an event of a sequence failed";
  return event;
}

int LiveSequence::on_routing(void* user, int32_t layer, int32_t, int32_t n, const int32_t* ids, const float*,
                             int32_t top_k) {
  auto& self = *static_cast<LiveSequence*>(user);
  const auto count = static_cast<size_t>(n) * static_cast<size_t>(top_k);
  const size_t row = static_cast<size_t>(layer) * static_cast<size_t>(self.n_experts_);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = row + static_cast<size_t>(ids[i]);
    if (at < self.experts_.size()) ++self.experts_[at];
  }
  return 0;
}

}  // namespace colibri::server

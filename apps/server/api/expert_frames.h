// ExpertFrames: what a stream of the experts' state says, frame after frame (web/README.md has the members).
//
// Pure: given snapshots of colibri_engine_experts and of the engine's counters, it gives frames; the routes take the
// snapshots and the time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"

namespace colibri::server {

namespace json = common::json;

struct ExpertSnapshot {
  std::vector<uint64_t> activations;  ///< [layers][experts], since the engine was opened
  std::vector<uint8_t> residency;     ///< COLIBRI_ON_DISK, ...
  double seconds = 0;                 ///< when it was taken
  uint64_t hits = 0, misses = 0, bytes_read = 0, tokens = 0;
};

struct ExpertShape {
  size_t layers = 0, experts = 0;
  std::vector<int> layer_numbers;  ///< decoder layer of each row
  int32_t top_k = 0;
  uint64_t bytes_per_expert = 0;  ///< 0: not known
};

class ExpertFrames {
 public:
  explicit ExpertFrames(ExpertShape shape) : shape_(std::move(shape)) {}
  /// The first frame, or what changed since the last one; nothing when nothing did.
  std::optional<json::object> next(ExpertSnapshot now);

 private:
  json::object changes(const ExpertSnapshot& now) const;
  const ExpertShape shape_;
  std::optional<ExpertSnapshot> last_;
};

std::string base64(std::string_view bytes);

}  // namespace colibri::server

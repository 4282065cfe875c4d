// The routing of one request as a file: docs/traces.md. `colibri run --trace` writes it, colibri-replay reads it.
//
// callback() is called on the engine's thread while the request runs; finish() after its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/output.h"

namespace colibri::cli {

using namespace common;

class Trace {
 public:
  Trace(OutputFile file, const api::Engine& engine, std::string model);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Refers to the Trace. A failed write ends the request; finish() tells.
  api::RoutingCallback callback();
  /// The first failure.
  const Status& status() const { return status_; }
  /// Completes the file and gives it its name. REQUIRES: status() is good.
  Status finish();

 private:
  bool add(int32_t layer, int32_t first, int32_t n, const int32_t* ids, const float* weights, int32_t top_k);
  void add_line(int32_t layer, int32_t position, const int32_t* ids, const float* weights, int32_t top_k);
  Status write_first_step();

  OutputFile file_;
  std::string model_;
  int32_t n_experts_;
  int32_t top_k_;
  std::vector<int32_t> layers_;  // MoE layers seen in the first step
  int64_t step_ = 0;
  int32_t last_layer_ = -1;
  std::string lines_;  // of one call; of the whole first step, whose layers the header names
  Status status_;
};

}  // namespace colibri::cli

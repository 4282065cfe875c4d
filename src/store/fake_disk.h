// For tests: a ByteSource over a catalog's files whose behaviour the test steers, read by read.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "store/byte_source.h"

namespace colibri::store {

/// What the next read shall do.
struct DiskBehaviour {
  std::chrono::microseconds delay{0};
  int error = 0;         ///< errno
  int64_t cut = -1;      ///< >= 0: at most so many bytes, as if the file ended
  bool changed = false;  ///< the file looks modified afterwards
};

class FakeDisk final : public ByteSource {
 public:
  using Script = std::function<DiskBehaviour(int64_t read_number, int64_t offset)>;

  FakeDisk(const formats::TensorCatalog& catalog, Script script, int64_t alignment = 1)
      : inner_(std::move(*open_byte_source(catalog, platform::Access::kBuffered))),
        script_(std::move(script)),
        alignment_(alignment) {}

  int64_t alignment() const override { return alignment_; }
  platform::ReadOutcome read(int file, int64_t offset, std::span<std::byte> out, int64_t needed) override {
    const DiskBehaviour b = script_(reads_.fetch_add(1), offset);
    if (b.delay.count() > 0) std::this_thread::sleep_for(b.delay);
    if (b.changed) changed_ = true;
    if (b.error != 0) return {0, b.error};
    if (b.cut >= 0) return {std::min<int64_t>(b.cut, needed - 1), 0};
    return inner_->read(file, offset, out, needed);
  }
  bool changed(int) override { return changed_; }
  const std::string& path(int file) const override { return inner_->path(file); }

 private:
  std::unique_ptr<ByteSource> inner_;
  Script script_;
  int64_t alignment_;
  std::atomic<int64_t> reads_{0};
  std::atomic<bool> changed_{false};
};

}  // namespace colibri::store

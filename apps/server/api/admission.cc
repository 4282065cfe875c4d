#include "admission.h"

#include <algorithm>
#include <cmath>

namespace colibri::server {

Admission::Place::~Place() {
  const std::lock_guard lock(admission_.mutex_);
  --(begun_ ? admission_.running_ : admission_.waiting_);
}

void Admission::Place::begin() {
  if (begun_) return;
  begun_ = true;
  const std::lock_guard lock(admission_.mutex_);
  --admission_.waiting_;
  ++admission_.running_;
}

void Admission::Place::finish(double seconds) {
  constexpr double kNewest = 0.1;
  const std::lock_guard lock(admission_.mutex_);
  double& mean = admission_.seconds_;
  mean = mean == 0 ? seconds : (1 - kNewest) * mean + kNewest * seconds;
}

std::unique_ptr<Admission::Place> Admission::enter() {
  const std::lock_guard lock(mutex_);
  if (is_full()) return nullptr;
  ++waiting_;
  return std::make_unique<Place>(*this);
}

bool Admission::full() const {
  const std::lock_guard lock(mutex_);
  return is_full();
}

// With places free, requests that were just submitted only seem to wait.
bool Admission::is_full() const { return waiting_ >= max_queue_ && waiting_ + running_ >= parallel_ + max_queue_; }

size_t Admission::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

size_t Admission::running() const {
  const std::lock_guard lock(mutex_);
  return running_;
}

int Admission::retry_after_s() const {
  const std::lock_guard lock(mutex_);
  // One place of `parallel_` becomes free every mean / parallel seconds; the newcomer goes behind those that wait.
  const double ahead = static_cast<double>(waiting_ + 1) / static_cast<double>(std::max<size_t>(1, parallel_));
  return std::clamp(static_cast<int>(std::ceil(seconds_ * ahead)), 1, 60);
}

}  // namespace colibri::server

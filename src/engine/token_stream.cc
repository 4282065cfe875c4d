#include "engine/token_stream.h"

#include <chrono>

#include "base/check.h"

namespace colibri::engine {

namespace {

constexpr size_t kUsualText = 48;  // bytes of a token's text, nearly always

}  // namespace

TokenStream::TokenStream(size_t capacity, int top) : ring_(capacity) {
  for (TokenEvent& event : ring_) {
    event.text.reserve(kUsualText);
    event.top.reserve(static_cast<size_t>(top));
  }
}

bool TokenStream::has_room(size_t more) const {
  const std::lock_guard lock(mutex_);
  return size_ + 2 + more <= ring_.size();
}

void TokenStream::push(const TokenEvent& event) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    COLIBRI_CHECK(size_ < ring_.size());
    ring_[(head_ + size_) % ring_.size()] = event;
    was_empty = size_++ == 0;
  }
  arrived_.notify_one();
  if (!was_empty) return;
  const std::lock_guard lock(arrival_mutex_);
  if (on_arrival_) on_arrival_();
}

void TokenStream::on_arrival(std::function<void()> callback) {
  const std::lock_guard lock(arrival_mutex_);
  on_arrival_ = std::move(callback);
}

bool TokenStream::pop(int timeout_ms, TokenEvent& event) {
  {
    std::unique_lock lock(mutex_);
    const auto there = [this] { return size_ > 0; };
    if (timeout_ms < 0) {
      arrived_.wait(lock, there);
    } else if (!arrived_.wait_for(lock, std::chrono::milliseconds(timeout_ms), there)) {
      return false;
    }
    event = ring_[head_];
    head_ = (head_ + 1) % ring_.size();
    --size_;
  }
  if (on_pop_) on_pop_();
  return true;
}

}  // namespace colibri::engine

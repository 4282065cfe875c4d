// Heap: where the values of one render (or the constants of one parsed template) live.
//
// Objects are trivially destructible and freed all at once; nothing is counted, nothing is moved, pointers stay good.
// Budget: the bytes handed out are bounded. Who makes something whose size comes from the template or the data asks
// `fits` first (TextBuilder and ListBuilder do) and calls `exhaust` instead; a small object may still be had after
// that, so that making a value never fails. An exhausted heap dooms its render: Runtime::step reports it before
// anything made since can matter. Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace colibri::text::jinja {

class Heap {
 public:
  explicit Heap(int64_t budget_bytes) : remaining_(budget_bytes) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  bool fits(uint64_t bytes) const { return remaining_ > 0 && bytes <= static_cast<uint64_t>(remaining_); }
  void exhaust() { remaining_ = -1; }
  bool exhausted() const { return remaining_ < 0; }

  /// REQUIRES: fits(bytes), or `bytes` is small and bounded by the code. Aligned for any object here.
  void* allocate(size_t bytes) {
    bytes = (bytes + kAlign - 1) / kAlign * kAlign;
    remaining_ -= static_cast<int64_t>(bytes);
    if (bytes > available_) add_chunk(bytes);
    std::byte* result = next_;
    next_ += bytes;
    available_ -= bytes;
    return result;
  }

  template <typename T, typename... Args>
  T* make(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlign);
    return new (allocate(sizeof(T))) T{std::forward<Args>(args)...};
  }

  /// `n` default values. REQUIRES: as for allocate.
  template <typename T>
  T* make_array(size_t n) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlign);
    T* items = static_cast<T*>(allocate(n * sizeof(T)));
    for (size_t i = 0; i < n; ++i) new (items + i) T();
    return items;
  }

  /// A copy of `text` that lives as long as the heap. REQUIRES: as for allocate.
  std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* bytes = static_cast<char*>(allocate(text.size()));
    std::memcpy(bytes, text.data(), text.size());
    return {bytes, text.size()};
  }

 private:
  static constexpr size_t kAlign = 8;
  static constexpr size_t kChunkBytes = 32 << 10;

  void add_chunk(size_t bytes) {
    const size_t size = bytes > kChunkBytes ? bytes : kChunkBytes;
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    next_ = chunks_.back().get();
    available_ = size;
  }

  int64_t remaining_;
  std::byte* next_ = nullptr;
  size_t available_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
};

}  // namespace colibri::text::jinja

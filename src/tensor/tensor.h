// Shape and TensorView: a tensor as every layer passes it around. A view borrows its bytes; whoever made it owns them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace colibri {

/// Up to eight dimensions, slowest first (row-major, as Hugging Face writes shapes; GGUF's `ne` reversed).
class Shape {
 public:
  static constexpr int kMaxDims = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    for (int64_t d : dims) push_back(d);
  }
  void push_back(int64_t dim) {
    COLIBRI_CHECK(n_ < kMaxDims);
    dims_[static_cast<size_t>(n_++)] = dim;
  }
  int size() const { return n_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + n_; }
  /// Product of the dimensions, 1 for a scalar. REQUIRES: no overflow (parsers check before they build a Shape).
  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : *this) n *= d;
    return n;
  }
  bool operator==(const Shape& other) const {
    if (n_ != other.n_) return false;
    for (int i = 0; i < n_; ++i)
      if ((*this)[i] != other[i]) return false;
    return true;
  }
  std::string to_string() const;  ///< "[4096, 256]"

 private:
  std::array<int64_t, kMaxDims> dims_{};
  int n_ = 0;
};

/// Float activations, contiguous rows: [rows, width].
struct Rows {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t width = 0;

  float* row(int64_t r) const { return data + r * width; }
  Rows slice(int64_t first, int64_t count) const { return {data + first * width, count, width}; }
  /// The same memory seen as [rows * width / new_width, new_width].
  Rows reshaped(int64_t new_width) const { return {data, rows * width / new_width, new_width}; }
};

/// A tensor of any type whose bytes are in memory.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
};

}  // namespace colibri

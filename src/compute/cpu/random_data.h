// Random problems for the self-checks and the tests, the same on every machine.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "compute/backend.h"
#include "tensor/convert.h"

namespace colibri::compute {

/// xorshift64*: small, and equal everywhere (the distributions of <random> are not).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t bits() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }
  int64_t below(int64_t n) { return static_cast<int64_t>((bits() >> 33) % static_cast<uint64_t>(n)); }
  /// Uniform in [-1, 1).
  float real() { return static_cast<float>(static_cast<int32_t>(bits() >> 40) - (1 << 23)) * 0x1p-23f; }

 private:
  uint64_t state_;
};

/// Rows that own their memory.
struct Block {
  std::vector<float> values;
  int64_t width = 0;

  Block() = default;
  Block(int64_t rows, int64_t n) : values(static_cast<size_t>(rows * n)), width(n) {}
  Rows rows() { return {values.data(), static_cast<int64_t>(values.size()) / width, width}; }
  bool operator==(const Block& other) const {
    return values.size() == other.values.size() &&
           std::memcmp(values.data(), other.values.data(), values.size() * sizeof(float)) == 0;
  }
};

inline Block random_block(Random& random, int64_t rows, int64_t width, float size = 1.0f) {
  Block block(rows, width);
  for (float& v : block.values) v = size * random.real();
  return block;
}

/// A packed matrix that owns its memory, and the same numbers as rows.
struct Weights {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines;
  PackedMatrix packed;
  Block dense;  ///< [n, k]
};

/// The type that encoding_for turns into this encoding; there is one for each.
inline DType file_type(Encoding encoding) {
  auto dtype = DType::kF64;
  while (encoding_for(dtype) != encoding) dtype = static_cast<DType>(static_cast<int>(dtype) + 1);
  return dtype;
}

template <typename T>
void append_bytes(std::vector<std::byte>& bytes, T value) {
  const auto* p = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), p, p + sizeof value);
}

inline void append_random_bytes(Random& random, int n, std::vector<std::byte>& bytes) {
  for (int i = 0; i < n; ++i) append_bytes(bytes, static_cast<uint8_t>(random.below(256)));
}
inline void append_random_half(Random& random, std::vector<std::byte>& bytes) {
  append_bytes(bytes, f32_to_f16(random.real() / 64));
}

/// One block as the file type has it: scales of a sensible size, everything else any bits.
inline void append_random_block(Random& random, Encoding encoding, std::vector<std::byte>& bytes) {
  const int size = info(file_type(encoding)).block_bytes;
  switch (encoding) {
    case Encoding::kF32:
      return append_bytes(bytes, random.real());
    case Encoding::kF16:
      return append_bytes(bytes, f32_to_f16(random.real()));
    case Encoding::kBF16:
      return append_bytes(bytes, f32_to_bf16(random.real()));
    case Encoding::kMXFP4:
      append_bytes(bytes, static_cast<uint8_t>(118 + random.below(10)));
      return append_random_bytes(random, size - 1, bytes);
    case Encoding::kQ6_K:  // its scale comes last
      append_random_bytes(random, size - 2, bytes);
      return append_random_half(random, bytes);
    case Encoding::kQ4_1:
    case Encoding::kQ5_1:
    case Encoding::kQ4_K:
    case Encoding::kQ5_K:
      append_random_half(random, bytes);
      append_random_half(random, bytes);
      return append_random_bytes(random, size - 4, bytes);
    default:
      append_random_half(random, bytes);
      return append_random_bytes(random, size - 2, bytes);
  }
}

/// Elements of one row as the file type has them.
inline void append_random_row(Random& random, Encoding encoding, int64_t k, std::vector<std::byte>& bytes) {
  for (int64_t i = 0; i < k; i += info(file_type(encoding)).block_elements)
    append_random_block(random, encoding, bytes);
}

/// A width that the encoding can have: a few blocks.
inline int64_t random_inputs(Random& random, Encoding encoding) {
  if (!is_quantised(encoding)) return 1 + random.below(170);
  return block_inputs(encoding) == 256 ? 256 * (1 + random.below(3)) : 32 * (1 + random.below(20));
}

/// `fill` >= 0: all bits beside the first scale of a block come from that byte.
inline Weights random_weights(Random& random, Encoding encoding, int64_t n, int64_t k, int fill = -1) {
  std::vector<std::byte> file;
  for (int64_t row = 0; row < n; ++row) append_random_row(random, encoding, k, file);
  const bool scale_last = encoding == Encoding::kQ6_K;
  const auto block = static_cast<size_t>(info(file_type(encoding)).block_bytes);
  for (size_t i = 0; fill >= 0 && i < file.size(); ++i) {
    const size_t at = i % block;
    if (scale_last ? at + 2 < block : at >= 4) file[i] = static_cast<std::byte>(fill);
  }
  Weights w;
  w.lines.resize(static_cast<size_t>(packed_bytes(encoding, n, k) + 63) / 64);
  auto* bytes = reinterpret_cast<std::byte*>(w.lines.data());
  pack_rows(file_type(encoding), file.data(), 0, n, n, k, bytes);
  w.packed = {encoding, n, k, bytes};
  w.dense = Block(n, k);
  for (int64_t row = 0; row < n; ++row) unpack_row(w.packed, row, w.dense.rows().row(row));
  return w;
}

constexpr Encoding kEncodings[] = {Encoding::kF32,   Encoding::kF16,  Encoding::kBF16, Encoding::kQ8_0,
                                   Encoding::kQ4_0,  Encoding::kQ4_1, Encoding::kQ5_0, Encoding::kQ5_1,
                                   Encoding::kMXFP4, Encoding::kQ4_K, Encoding::kQ5_K, Encoding::kQ6_K};

/// The keys and values of one sequence.
struct Cache {
  std::vector<uint64_t> memory;
  KvView view;

  explicit Cache(const KvView& shape) : view(shape) {
    view.capacity = (shape.capacity + KvView::kTile - 1) / KvView::kTile * KvView::kTile;
    memory.resize(static_cast<size_t>(view.bytes()) / sizeof(uint64_t));
    view.data = reinterpret_cast<std::byte*>(memory.data());
    forget();
  }
  Cache(KvType type, int kv_heads, int head_dim, int64_t capacity)
      : Cache(KvView{nullptr, type, capacity, kv_heads, head_dim, head_dim}) {}
  Cache(int kv_heads, int head_dim, int64_t capacity) : Cache(KvType::kF32, kv_heads, head_dim, capacity) {}
  Cache(const Cache&) = delete;

  /// Positions that nobody wrote hold NaN, also as halves and scales: a kernel that used one would show it.
  void forget() { std::fill(memory.begin(), memory.end(), ~uint64_t{0}); }
};

}  // namespace colibri::compute

// Random problems for the self-checks and the tests, the same on every machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "compute/backend.h"
#include "tensor/block_scales.h"
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

/// The type that encoding_for turns into this encoding; kCount for those that hold no file type.
inline DType file_type(Encoding encoding) {
  auto dtype = DType::kF64;
  while (dtype != DType::kCount && encoding_for(dtype) != encoding)
    dtype = static_cast<DType>(static_cast<int>(dtype) + 1);
  return dtype;
}

inline void put_word(std::byte* at, uint16_t word) { std::memcpy(at, &word, sizeof word); }
inline uint16_t random_half(Random& random) { return f32_to_f16(random.real() / 64); }

/// Scales of a sensible size where the type has them.
inline void put_random_scales(Random& random, DType dtype, std::byte* block) {
  for (const int64_t at : half_offsets(dtype)) put_word(block + at, random_half(random));
  if (dtype == DType::kMXFP4) block[0] = static_cast<std::byte>(118 + random.below(10));
  for (int i = 0; dtype == DType::kNVFP4 && i < 4; ++i) block[i] = static_cast<std::byte>(0x10 + random.below(0x20));
  const int half = dtype == DType::kIQ1_M ? random_half(random) : 0;
  for (int i = 0; dtype == DType::kIQ1_M && i < 4; ++i)
    put_word(block + 48 + 2 * i, static_cast<uint16_t>(random.below(0x1000) | (half >> 4 * i & 15) << 12));
}

/// One block as the file type has it: scales of a sensible size; every other byte is `fill`, or anything if that is
/// negative.
inline void random_block_of(Random& random, DType dtype, int fill, std::byte* block) {
  for (int i = 0; i < info(dtype).block_bytes; ++i)
    block[i] = static_cast<std::byte>(fill >= 0 ? fill : static_cast<int>(random.below(256)));
  const float real = random.real();
  if (dtype == DType::kF32) std::memcpy(block, &real, sizeof real);
  if (dtype == DType::kF16) put_word(block, f32_to_f16(real));
  if (dtype == DType::kBF16) put_word(block, f32_to_bf16(real));
  put_random_scales(random, dtype, block);
}

inline void pack_random_blocks(Random& random, const PackedMatrix& w, int fill, std::byte* to) {
  const DTypeInfo& type = info(file_type(w.encoding));
  std::vector<std::byte> file(static_cast<size_t>(w.n * w.k / type.block_elements * type.block_bytes));
  for (size_t at = 0; at < file.size(); at += static_cast<size_t>(type.block_bytes))
    random_block_of(random, type.dtype, fill, file.data() + at);
  pack_rows(type.dtype, file.data(), 0, w.n, w.n, w.k, to);
}

inline void pack_random_codes(Random& random, const PackedMatrix& w, int fill, std::byte* to) {
  const bool floats = w.encoding == Encoding::kF8E4M3;
  const int most = w.encoding == Encoding::kCodes4 ? 15 : floats ? 126 : 255;  // 127 is NaN
  for (int64_t first = 0; first < w.n; first += kPanelWidth, to += panel_bytes(w.encoding, w.k)) {
    const int64_t rows = std::min<int64_t>(kPanelWidth, w.n - first);
    std::vector<uint8_t> codes(static_cast<size_t>(rows * w.k));
    for (uint8_t& code : codes)
      code = static_cast<uint8_t>(std::min<int64_t>(most, fill >= 0 ? fill : random.below(256)));
    const Block scales = random_block(random, rows, w.k / kCodeGroup, floats ? 0x1p-8f : 0x1p-6f);
    const Block minimums = random_block(random, rows, w.k / kCodeGroup);
    pack_codes(w.encoding, {rows, codes.data(), scales.values.data(), floats ? nullptr : minimums.values.data()}, w.k,
               to);
  }
}

/// A width that the encoding can have: a few blocks.
inline int64_t random_inputs(Random& random, Encoding encoding) {
  if (!is_quantised(encoding)) return 1 + random.below(170);
  const int64_t block = block_inputs(encoding);
  return block * (1 + random.below(block == 256 ? 3 : 640 / block));
}

/// `fill` >= 0: all bits beside the scales come from that byte.
inline Weights random_weights(Random& random, Encoding encoding, int64_t n, int64_t k, int fill = -1) {
  Weights w;
  w.lines.resize(static_cast<size_t>(packed_bytes(encoding, n, k) + 63) / 64);
  auto* bytes = reinterpret_cast<std::byte*>(w.lines.data());
  w.packed = {encoding, n, k, bytes};
  if (file_type(encoding) == DType::kCount) {
    pack_random_codes(random, w.packed, fill, bytes);
  } else {
    pack_random_blocks(random, w.packed, fill, bytes);
  }
  w.dense = Block(n, k);
  for (int64_t row = 0; row < n; ++row) unpack_row(w.packed, row, w.dense.rows().row(row));
  return w;
}

constexpr std::array<Encoding, kEncodingCount> all_encodings() {
  std::array<Encoding, kEncodingCount> all{};
  for (int i = 0; i < kEncodingCount; ++i) all[static_cast<size_t>(i)] = static_cast<Encoding>(i);
  return all;
}
constexpr std::array<Encoding, kEncodingCount> kEncodings = all_encodings();

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

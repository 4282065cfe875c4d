#include "store/decode_row.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "tensor/convert.h"

namespace colibri::store {
namespace {

constexpr int64_t kChunk = 256;                          // columns at a time
constexpr int kAwqNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // where column j of eight lies

// File bytes have no alignment.
template <typename T>
T load(const std::byte* src, int64_t i) {
  T value;
  std::memcpy(&value, src + i * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

int byte(const std::byte* src, int64_t i) { return static_cast<int>(src[i]); }

// Code i of codes of `bits` bits in words, the low bits first.
int code(const std::byte* words, int bits, int64_t i) {
  const int per_word = 32 / bits;
  return static_cast<int>(load<uint32_t>(words, i / per_word) >> i % per_word * bits & ((1u << bits) - 1));
}

int awq_code(const std::byte* words, int64_t i) {
  return static_cast<int>(load<uint32_t>(words, i / 8) >> 4 * kAwqNibble[i % 8] & 15);
}

float e8m0_to_f32(uint8_t e) {
  if (e == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(e == 0 ? 0x00400000u : static_cast<uint32_t>(e) << 23);
}

// One file row, a chunk of columns at a time.
class Row {
 public:
  Row(const MatrixSource& source, int64_t row, const RowParts& parts)
      : codes_(source.codes), dtype_(source.tensor->dtype), row_(row), parts_(parts) {
    if (!codes_.act_order || !by_inputs()) return;
    const int64_t group = load<int32_t>(parts.group_index, 0);
    parts_.scales += group * codes_.scales.row_bytes;
    if (parts_.zeros != nullptr) parts_.zeros += group * codes_.zeros.row_bytes;
  }

  void decode(int64_t first, int64_t count, float* out) const {
    float scales[kChunk];
    read_codes(first, count, out);
    subtract_zeros(first, count, out);
    read_scales(first, count, scales);
    for (int64_t i = 0; i < count; ++i) out[i] *= scales[i];
  }

 private:
  // The file rows are inputs; a scale is one column's.
  bool by_inputs() const { return codes_.decoding == Decoding::kGptq || codes_.decoding == Decoding::kAwq; }

  int64_t group_of(int64_t column) const {
    if (by_inputs()) return column;
    return codes_.act_order ? load<int32_t>(parts_.group_index, column) : column / codes_.group;
  }

  void read_codes(int64_t first, int64_t count, float* out) const {
    for (int64_t i = 0; i < count; ++i) out[i] = code_at(first + i);
  }

  float code_at(int64_t column) const {
    switch (codes_.decoding) {
      case Decoding::kFp8:
        return f8_e4m3_to_f32(load<uint8_t>(parts_.own, column));
      case Decoding::kFp4:
        return kFp4Values[byte(parts_.own, column / 2) >> column % 2 * 4 & 15];
      case Decoding::kInt:
        if (dtype_ == DType::kI8) return load<int8_t>(parts_.own, column);
        return static_cast<float>(code(parts_.own, codes_.bits, column));
      case Decoding::kGptq: {
        const auto within = row_ % (32 / codes_.bits);
        const auto word = load<uint32_t>(parts_.own, column);
        return static_cast<float>(word >> within * codes_.bits & ((1u << codes_.bits) - 1));
      }
      case Decoding::kAwq:
        return static_cast<float>(awq_code(parts_.own, column));
      case Decoding::kType:
        break;
    }
    return 0;
  }

  void subtract_zeros(int64_t first, int64_t count, float* out) const {
    for (int64_t i = 0; i < count; ++i) out[i] -= zero_at(first + i);
  }

  float zero_at(int64_t column) const {
    const std::byte* zeros = parts_.zeros;
    switch (codes_.decoding) {
      case Decoding::kInt:
        if (dtype_ == DType::kI8) return zeros == nullptr ? 0 : load<int8_t>(zeros, group_of(column));
        if (zeros == nullptr) return static_cast<float>(1 << (codes_.bits - 1));
        return packed_zero(load<uint32_t>(zeros, group_of(column)));
      case Decoding::kGptq:
        return static_cast<float>(code(zeros, codes_.bits, column) + (codes_.zero_plus_one ? 1 : 0));
      case Decoding::kAwq:
        return zeros == nullptr ? 8 : static_cast<float>(awq_code(zeros, column));
      default:
        return 0;
    }
  }

  // Words hold the zeros of 32 / bits file rows.
  float packed_zero(uint32_t word) const {
    const auto within = row_ % (32 / codes_.bits);
    return static_cast<float>(word >> within * codes_.bits & ((1u << codes_.bits) - 1));
  }

  void read_scales(int64_t first, int64_t count, float* scales) const {
    const DType dtype = codes_.scales.tensor->dtype;
    const float global = parts_.global != nullptr ? scale_value(codes_.global.tensor->dtype, parts_.global, 0) : 1;
    int64_t last_group = -1;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t group = group_of(first + i);
      if (group == last_group) {
        scales[i] = scales[i - 1];
        continue;
      }
      const float scale = scale_value(dtype, parts_.scales, group);
      scales[i] = codes_.divide_by_global ? scale / global : scale * global;
      last_group = group;
    }
  }

  const Codes& codes_;
  const DType dtype_;
  const int64_t row_;
  RowParts parts_;
};

}  // namespace

float f8_e4m3_to_f32(uint8_t code) {
  const uint32_t sign = (code & 0x80u) << 24;
  const uint32_t exponent = code >> 3 & 15u, mantissa = code & 7u;
  if ((code & 0x7fu) == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 120) << 23 | mantissa << 20);
  const float small = static_cast<float>(mantissa) * 0x1p-9f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(small));
}

float scale_value(DType dtype, const std::byte* data, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return load<float>(data, i);
    case DType::kF16:
      return f16_to_f32(load<uint16_t>(data, i));
    case DType::kBF16:
      return bf16_to_f32(load<uint16_t>(data, i));
    case DType::kF8E4M3:
      return f8_e4m3_to_f32(load<uint8_t>(data, i));
    case DType::kF8E8M0:
    case DType::kU8:
      return e8m0_to_f32(load<uint8_t>(data, i));
    default:
      check_failed("scale_value: the type was checked", __FILE__, __LINE__);
  }
}

void decode_row(const MatrixSource& source, int64_t row, const RowParts& parts, float* out) {
  if (source.codes.decoding == Decoding::kType)
    return convert_to_f32(source.tensor->dtype, parts.own, source.width(), out);
  const Row decoder(source, row, parts);
  for (int64_t first = 0; first < source.width(); first += kChunk)
    decoder.decode(first, std::min(kChunk, source.width() - first), out + first);
}

}  // namespace colibri::store

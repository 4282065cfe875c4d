#include "store/decode_row.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "tensor/convert.h"

namespace colibri::store {
namespace {

constexpr int64_t kChunk = 256;  // columns at a time
/// The values of the sixteen E2M1 codes.
constexpr float kFp4Values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
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

// The file rows are inputs; a scale is one column's.
bool by_inputs(const Codes& codes) { return codes.decoding == Decoding::kGptq || codes.decoding == Decoding::kAwq; }

// One file row.
class Row {
 public:
  Row(const MatrixSource& source, int64_t row, const RowParts& parts)
      : codes_(source.codes), dtype_(source.tensor->dtype), row_(row), parts_(parts) {
    if (!codes_.act_order || !by_inputs(codes_)) return;
    const int64_t group = load<int32_t>(parts.group_index, 0);
    parts_.scales += group * codes_.scales.row_bytes;
    parts_.zeros += group * codes_.zeros.row_bytes;
  }

  void read_codes(int64_t first, int64_t count, uint8_t* out) const {
    switch (codes_.decoding) {
      case Decoding::kFp8:
        std::memcpy(out, parts_.own + first, static_cast<size_t>(count));
        return;
      case Decoding::kInt:
        if (dtype_ != DType::kI8) return unpack(first, count, out);
        for (int64_t i = 0; i < count; ++i) out[i] = load<uint8_t>(parts_.own, first + i) ^ 0x80;
        return;
      case Decoding::kGptq: {
        const int shift = static_cast<int>(row_ % (32 / codes_.bits)) * codes_.bits;
        const uint32_t mask = (1u << codes_.bits) - 1;
        for (int64_t i = 0; i < count; ++i)
          out[i] = static_cast<uint8_t>(load<uint32_t>(parts_.own, first + i) >> shift & mask);
        return;
      }
      case Decoding::kAwq:
        for (int64_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(awq_code(parts_.own, first + i));
        return;
      case Decoding::kType:
      case Decoding::kFp4:
        break;
    }
    check_failed("read_codes: the codes are whole numbers", __FILE__, __LINE__);
  }

  int zero(int64_t column) const {
    const std::byte* zeros = parts_.zeros;
    switch (codes_.decoding) {
      case Decoding::kInt:
        if (dtype_ == DType::kI8) return 128 + (zeros == nullptr ? 0 : load<int8_t>(zeros, group_of(column)));
        if (zeros == nullptr) return 1 << (codes_.bits - 1);
        return code_of_row(load<uint32_t>(zeros, group_of(column)));
      case Decoding::kGptq:  // less one as a code of that many bits: 0 is kept as the largest
        return (code(zeros, codes_.bits, column) + (codes_.zero_plus_one ? 1 : 0)) & ((1 << codes_.bits) - 1);
      case Decoding::kAwq:
        return awq_code(zeros, column);
      default:
        return 0;
    }
  }

  float scale(int64_t column) const {
    const float scale = scale_value(codes_.scales.tensor->dtype, parts_.scales, group_of(column));
    if (parts_.global == nullptr) return scale;
    const float global = scale_value(codes_.global.tensor->dtype, parts_.global, 0);
    return codes_.divide_by_global ? scale / global : scale * global;
  }

  // Columns with one scale and zero begin here and there.
  int64_t run(int64_t column) const {
    return codes_.act_order || by_inputs(codes_) ? 1 : codes_.group - column % codes_.group;
  }

  float fp4(int64_t column) const { return kFp4Values[byte(parts_.own, column / 2) >> column % 2 * 4 & 15]; }

 private:
  int64_t group_of(int64_t column) const {
    if (by_inputs(codes_)) return column;
    return codes_.act_order ? load<int32_t>(parts_.group_index, column) : column / codes_.group;
  }

  void unpack(int64_t first, int64_t count, uint8_t* out) const {
    if (codes_.bits != 4 || first % 2 != 0) {
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(code(parts_.own, codes_.bits, first + i));
      return;
    }
    const std::byte* pairs = parts_.own + first / 2;  // words are little-endian
    for (int64_t i = 0; i < count / 2; ++i) {
      out[2 * i] = static_cast<uint8_t>(pairs[i] & std::byte{15});
      out[2 * i + 1] = static_cast<uint8_t>(pairs[i] >> 4);
    }
    if (count % 2 != 0) out[count - 1] = static_cast<uint8_t>(pairs[count / 2] & std::byte{15});
  }

  // Of the codes of several rows in a word.
  int code_of_row(uint32_t word) const {
    return static_cast<int>(word >> row_ % (32 / codes_.bits) * codes_.bits & ((1u << codes_.bits) - 1));
  }

  const Codes& codes_;
  const DType dtype_;
  const int64_t row_;
  RowParts parts_;
};

// The numbers of a chunk before they are scaled.
void read_values(const Row& row, Decoding decoding, int64_t first, int64_t count, float* out) {
  if (decoding == Decoding::kFp4) {
    for (int64_t i = 0; i < count; ++i) out[i] = row.fp4(first + i);
    return;
  }
  uint8_t codes[kChunk];
  row.read_codes(first, count, codes);
  if (decoding == Decoding::kFp8) {
    for (int64_t i = 0; i < count; ++i) out[i] = e4m3_to_f32(codes[i]);
    return;
  }
  for (int64_t i = 0, run = 0; i < count; i += run) {
    const int zero = row.zero(first + i);
    run = std::min(row.run(first + i), count - i);
    for (int64_t j = i; j < i + run; ++j) out[j] = static_cast<float>(codes[j] - zero);
  }
}

void scale_values(const Row& row, int64_t first, int64_t count, float* values) {
  for (int64_t i = 0, run = 0; i < count; i += run) {
    const float scale = row.scale(first + i);
    run = std::min(row.run(first + i), count - i);
    for (int64_t j = i; j < i + run; ++j) values[j] *= scale;
  }
}

}  // namespace

float scale_value(DType dtype, const std::byte* data, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return load<float>(data, i);
    case DType::kF16:
      return f16_to_f32(load<uint16_t>(data, i));
    case DType::kBF16:
      return bf16_to_f32(load<uint16_t>(data, i));
    case DType::kF8E4M3:
      return e4m3_to_f32(load<uint8_t>(data, i));
    case DType::kF8E8M0:
    case DType::kU8:
      return e8m0_to_f32(load<uint8_t>(data, i));
    default:
      check_failed("scale_value: the type was checked", __FILE__, __LINE__);
  }
}

void decode_row(const MatrixSource& source, int64_t row, const RowParts& parts, float* out) {
  const Decoding decoding = source.codes.decoding;
  if (decoding == Decoding::kType) return convert_to_f32(source.tensor->dtype, parts.own, source.width(), out);
  const Row decoder(source, row, parts);
  for (int64_t first = 0; first < source.width(); first += kChunk) {
    const int64_t count = std::min(kChunk, source.width() - first);
    read_values(decoder, decoding, first, count, out + first);
    scale_values(decoder, first, count, out + first);
  }
}

void decode_codes(const MatrixSource& source, int64_t row, const RowParts& parts, int64_t first, int64_t count,
                  uint8_t* out) {
  Row(source, row, parts).read_codes(first, count, out);
}

void decode_scales(const MatrixSource& source, int64_t row, const RowParts& parts, int64_t first, int64_t step,
                   int64_t count, float* scales, float* minimums) {
  const Row decoder(source, row, parts);
  for (int64_t i = 0; i < count; ++i) {
    scales[i] = decoder.scale(first + i * step);
    minimums[i] = -scales[i] * static_cast<float>(decoder.zero(first + i * step));
  }
}

}  // namespace colibri::store

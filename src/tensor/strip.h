// Strips: the unit in which panels are packed and expanded (tensor/packed.h has the layout in words).
//
// Private to src/tensor: one table says how many bytes each part of a strip has, and sizes, packing and expanding
// follow it. Plain encodings fit the same table: their panel [k][16] is a run of strips that have no scales and no high
// bits. So do block encodings, which have no parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"
#include "tensor/packed.h"

namespace colibri {

struct StripFormat {
  Encoding encoding;
  std::string_view name;
  DType dtype;       ///< the file type of the same name, or kCount
  int block_inputs;  ///< inputs that share a block of the file type
  int scale_bytes;   ///< of 32 inputs of all 16 outputs
  int low_bits;      ///< of one weight
  int high_bits;     ///< of one weight, kept apart from the low ones
  int block_bytes;   ///< of the file's block if strips are blocks, else 0
};

// clang-format off
inline constexpr StripFormat kStripFormats[kEncodingCount] = {
    {Encoding::kF32,     "f32",     DType::kF32,       1,   0, 32, 0, 0},
    {Encoding::kF16,     "f16",     DType::kF16,       1,   0, 16, 0, 0},
    {Encoding::kBF16,    "bf16",    DType::kBF16,      1,   0, 16, 0, 0},
    {Encoding::kQ8_0,    "q8_0",    DType::kQ8_0,     32,  32,  8, 0, 0},
    {Encoding::kQ4_0,    "q4_0",    DType::kQ4_0,     32,  32,  4, 0, 0},
    {Encoding::kQ4_1,    "q4_1",    DType::kQ4_1,     32,  64,  4, 0, 0},
    {Encoding::kQ5_0,    "q5_0",    DType::kQ5_0,     32,  32,  4, 1, 0},
    {Encoding::kQ5_1,    "q5_1",    DType::kQ5_1,     32,  64,  4, 1, 0},
    {Encoding::kMXFP4,   "mxfp4",   DType::kMXFP4,    32,  16,  4, 0, 0},
    {Encoding::kQ4_K,    "q4_k",    DType::kQ4_K,    256,  32,  4, 0, 0},
    {Encoding::kQ5_K,    "q5_k",    DType::kQ5_K,    256,  32,  4, 1, 0},
    {Encoding::kQ6_K,    "q6_k",    DType::kQ6_K,    256,  36,  4, 2, 0},
    {Encoding::kIQ4_NL,  "iq4_nl",  DType::kIQ4_NL,   32,  32,  4, 0, 0},
    {Encoding::kIQ4_XS,  "iq4_xs",  DType::kIQ4_XS,  256,  16,  4, 0, 0},
    {Encoding::kQ2_K,    "q2_k",    DType::kQ2_K,    256,  40,  2, 0, 0},
    {Encoding::kQ3_K,    "q3_k",    DType::kQ3_K,    256,  28,  2, 1, 0},
    {Encoding::kIQ1_S,   "iq1_s",   DType::kIQ1_S,   256,   0,  0, 0, 50},
    {Encoding::kIQ1_M,   "iq1_m",   DType::kIQ1_M,   256,   0,  0, 0, 56},
    {Encoding::kIQ2_XXS, "iq2_xxs", DType::kIQ2_XXS, 256,   0,  0, 0, 66},
    {Encoding::kIQ2_XS,  "iq2_xs",  DType::kIQ2_XS,  256,   0,  0, 0, 74},
    {Encoding::kIQ2_S,   "iq2_s",   DType::kIQ2_S,   256,   0,  0, 0, 82},
    {Encoding::kIQ3_XXS, "iq3_xxs", DType::kIQ3_XXS, 256,   0,  0, 0, 98},
    {Encoding::kIQ3_S,   "iq3_s",   DType::kIQ3_S,   256,   0,  0, 0, 110},
    {Encoding::kTQ1_0,   "tq1_0",   DType::kTQ1_0,   256,   0,  0, 0, 54},
    {Encoding::kTQ2_0,   "tq2_0",   DType::kTQ2_0,   256,   0,  0, 0, 66},
    {Encoding::kNVFP4,   "nvfp4",   DType::kNVFP4,    64,   0,  0, 0, 36},
    {Encoding::kQ1_0,    "q1_0",    DType::kQ1_0,    128,   0,  0, 0, 18},
    {Encoding::kCodes4,  "codes4",  DType::kCount,    32, 128,  4, 0, 0},
    {Encoding::kCodes8,  "codes8",  DType::kCount,    32, 128,  8, 0, 0},
    {Encoding::kF8E4M3,  "f8_e4m3", DType::kCount,    32,  64,  8, 0, 0},
};
// clang-format on

constexpr const StripFormat& format_of(Encoding encoding) { return kStripFormats[static_cast<size_t>(encoding)]; }

/// Byte offsets inside a strip; the scales stand at 0, and `scales` is how many bytes of them there are.
struct StripLayout {
  int64_t scales, low, high, bytes;
};

constexpr StripLayout strip_layout(Encoding encoding, int64_t inputs) {
  const StripFormat& format = format_of(encoding);
  if (format.block_bytes > 0) return {0, 0, 0, inputs / format.block_inputs * format.block_bytes * kPanelWidth};
  const int64_t scales = format.scale_bytes * inputs / 32;
  const int64_t low = (scales + kLineBytes - 1) / kLineBytes * kLineBytes;
  const int64_t high = low + 2 * format.low_bits * inputs;  // 16 outputs of `bits` bits are 2 * bits bytes
  return {scales, low, high, high + 2 * format.high_bits * inputs};
}

/// Bytes of `inputs` inputs of one row of the file type.
constexpr int64_t file_bytes(const DTypeInfo& type, int64_t inputs) {
  return inputs / type.block_elements * type.block_bytes;
}

/// Packs the blocks of 16 rows into one strip. rows[o] points at the first of the strip's blocks of output o.
void pack_strip(Encoding encoding, const std::byte* const rows[kPanelWidth], int64_t inputs, std::byte* dst);

/// Blocks of the file type that stand for `inputs` weights of +0, for the outputs beyond the last.
void fill_zero_weights(Encoding encoding, int64_t inputs, std::byte* blocks);

}  // namespace colibri

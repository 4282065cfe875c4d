// Packed weights: the encodings the kernels read. docs/encodings.md describes every byte.
//
// A weight matrix W [n, k] (n outputs, k inputs) is kept in panels of 16 outputs. Each encoding holds
// the file type of the same name without loss.
//
// Plain encodings: a panel is [k][16], so that a kernel reads, for each input in ascending order, the weights of 16
// outputs side by side.
//
// Quantised encodings: a panel is a sequence of strips of kStripInputs inputs (the last one may be shorter), and a
// strip is three parts, each padded to whole lines of 64 bytes: scales, low bits, high bits. Quantised values lie in
// lines as the dot-product instructions want them: byte 4 * o + i of a line belongs to output o and input i (of four).
//
//   encoding  values of one weight u                     scales of a strip of s inputs           low bits  high bits
//   kQ8_0     d * (u - 128)                              half d[s/32][16]                        s/4 lines
//   kQ4_0     d * (u - 8)                                half d[s/32][16]                        s/8
//   kQ4_1     d * u + m                                  half {d[16], m[16]}[s/32]               s/8
//   kQ5_0     d * (u - 16)                               half d[s/32][16]                        s/8       s/32
//   kQ5_1     d * u + m                                  half {d[16], m[16]}[s/32]               s/8       s/32
//   kMXFP4    2^(e - 128) * kMxfp4Values[u]              uint8 e[s/32][16]                       s/8
//   kQ4_K     d * sc_g * u - dmin * m_g                  half d[16], dmin[16]; uint32 w[3][16]   s/8
//   kQ5_K     the same                                   the same                                s/8       s/32
//   kQ6_K     d * sc_g * (u - 32)  (g: 16 inputs)        int8 sc[16][16]; half d[16]             s/8       s/16
//   kIQ4_NL   d * kIq4Values[u]                          half d[s/32][16]                        s/8
//   kIQ4_XS   d * (sc_g - 32) * kIq4Values[u]            half d[16]; uint8 low[4][16], hi[2][16] s/8
//   kQ2_K     d * sc_g * u - dmin * m_g  (g: 16 inputs)  uint8 s[16][16]; half d[16], dmin[16]   s/16
//   kQ3_K     d * (sc_g - 32) * (u - 4)  (g: 16 inputs)  uint8 low[8][16], hi[4][16]; half d[16] s/16      s/32
//   kCodes4   d * u + m                                  float {d[16], m[16]}[s/32]              s/8
//   kCodes8   d * u + m                                  float {d[16], m[16]}[s/32]              s/4
//   kF8E4M3   d * e4m3(u)                                float d[s/32][16]                       s/4
//
// A low line of the 4-bit kinds holds eight inputs: low nibbles inputs 0 to 3, high nibbles 4 to 7. One of the 2-bit
// kinds (kQ2_K, kQ3_K) holds sixteen, like a high line with two bits. A high line holds
// one bit of 32 inputs (bit f of a byte: inputs 4 f .. 4 f + 3) or two bits of 16 (bits 2 f, 2 f + 1). The words of the
// K kinds: w[0] has the low four bits of sc_g at bit 4 g, w[1] those of m_g; w[2] has 16 bits for four groups, at bit
// 16
// * (g / 4): two for each sc_g at 2 * (g % 4), two for each m_g at 8 + 2 * (g % 4). So the values of groups g and g + 4
// lie 16 bits apart, as products of pairs want them. kIQ4_XS: the low nibble of byte low[g / 2] is that of sc_g for
// even g, the high one for odd g; bits 2 * (g % 4) and the next of hi[g / 4] are the upper two. kQ3_K: the same. kQ2_K:
// sc_g is the low nibble of s[g].
//
// Block encodings (kIQ1_S to kQ1_0, all types whose codes are found in lattices or powers of three): a strip is the
// file's blocks of the 16 outputs, one output after the other; only a panel is padded to whole lines. They are expanded
// to bytes and float scales, a strip at a time, before they are multiplied (tensor/expanded_strip.h).
//
// kCodes4, kCodes8 and kF8E4M3 hold what other formats decode to (pack_codes); no file type has their name. kF8E4M3
// multiplies float activations only: a byte holds no product of two floats.
//
// Outputs beyond n in the last panel are zero weights. The caller owns the bytes and keeps them 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace colibri {

// clang-format off
enum class Encoding : uint8_t {
  kF32, kF16, kBF16,
  kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kMXFP4, kQ4_K, kQ5_K, kQ6_K, kIQ4_NL, kIQ4_XS, kQ2_K, kQ3_K,
  kIQ1_S, kIQ1_M, kIQ2_XXS, kIQ2_XS, kIQ2_S, kIQ3_XXS, kIQ3_S, kTQ1_0, kTQ2_0, kNVFP4, kQ1_0,
  kCodes4, kCodes8, kF8E4M3
};
// clang-format on
constexpr int kEncodingCount = 30;
constexpr int kPanelWidth = 16;
constexpr int kLineBytes = 64;
constexpr int kStripInputs = 256;

/// What the sixteen codes of MXFP4 stand for, in halves (so that they are whole numbers).
constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/// What those of IQ4_NL and IQ4_XS stand for.
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

std::string_view name(Encoding encoding);
/// The encoding that holds `dtype` without loss, if there is one yet.
std::optional<Encoding> encoding_for(DType dtype);
/// Neither F32, F16 nor BF16.
constexpr bool is_quantised(Encoding encoding) { return encoding > Encoding::kBF16; }
/// Strips are blocks of the file.
constexpr bool is_blocks(Encoding encoding) { return encoding >= Encoding::kIQ1_S && encoding <= Encoding::kQ1_0; }
/// Can be multiplied with 8-bit activations: whole-number codes.
constexpr bool has_codes(Encoding encoding) { return is_quantised(encoding) && encoding != Encoding::kF8E4M3; }

struct PackedMatrix {
  Encoding encoding = Encoding::kF32;
  int64_t n = 0;  ///< outputs (rows of W)
  int64_t k = 0;  ///< inputs
  const std::byte* data = nullptr;

  int64_t panels() const { return (n + kPanelWidth - 1) / kPanelWidth; }
};

/// One MLP (an expert, a shared expert, a dense feed-forward): down(f(gate x, up x)), or down(f(up x)) without a gate.
struct ExpertWeights {
  PackedMatrix gate, up;  ///< [width, hidden]; gate.n = 0: there is none
  PackedMatrix down;      ///< [hidden, width]
  // Added to what the matrix of the name gives; null: nothing.
  const float* gate_bias = nullptr;  ///< [width]
  const float* up_bias = nullptr;    ///< [width]
  const float* down_bias = nullptr;  ///< [hidden]
};

/// Inputs that share a block of the file type: k must be a multiple. 1 for the plain kinds, 32, or 256.
int64_t block_inputs(Encoding encoding);
/// Bytes of one strip of `inputs` inputs of a quantised panel. REQUIRES: inputs is a multiple of block_inputs and at
/// most kStripInputs.
int64_t strip_bytes(Encoding encoding, int64_t inputs);
/// Bytes of one panel. REQUIRES: k is a multiple of block_inputs(encoding).
int64_t panel_bytes(Encoding encoding, int64_t k);
/// Bytes of a whole matrix.
int64_t packed_bytes(Encoding encoding, int64_t n, int64_t k);

/// Packs rows [first, first + count) of a matrix with k inputs, given row-major in the file type `dtype`, into `dst`,
/// the start of the packed matrix. The padding of the last panel is written too when the last row comes. REQUIRES:
/// encoding_for(dtype) is set, first % 16 == 0, and count % 16 == 0 unless first + count == n.
void pack_rows(DType dtype, const std::byte* src, int64_t first, int64_t count, int64_t n, int64_t k, std::byte* dst);

/// Rows of one panel as they are before packing: a code per byte, and what each group of kCodeGroup inputs shares.
constexpr int kCodeGroup = 32;
struct CodeRows {
  int64_t rows = 0;                 ///< 1 .. kPanelWidth; the other outputs become zero weights
  const uint8_t* codes = nullptr;   ///< [rows, k]: below 16 for kCodes4; bits of e4m3 for kF8E4M3
  const float* scales = nullptr;    ///< [rows, k / kCodeGroup]
  const float* minimums = nullptr;  ///< likewise; null for kF8E4M3, and where all are 0
};

/// Packs one panel of kCodes4, kCodes8 or kF8E4M3: panel_bytes(encoding, k) bytes. REQUIRES: k a multiple of
/// kCodeGroup.
void pack_codes(Encoding encoding, const CodeRows& rows, int64_t k, std::byte* panel);

/// Expands row `row` into out[0..k): the same floats that convert_to_f32 gives for the file's bytes.
void unpack_row(const PackedMatrix& matrix, int64_t row, float* out);

}  // namespace colibri

// One template expands all 16 outputs of a strip or a single one. Float operations stand in ggml's order (tensor/
// convert.cc has the same ones): d * sc first, then * u, then the minimum.
#include "tensor/unpack.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/convert.h"
#include "tensor/fp4.h"
#include "tensor/strip.h"

namespace colibri {
namespace {

struct Strip {
  const std::byte* scales;
  const std::byte* low;
  const std::byte* high;
  int64_t inputs;
};

template <typename T>
T load(const std::byte* src) {
  T value;
  std::memcpy(&value, src, sizeof value);
  return value;
}

float half_at(const std::byte* halves, int64_t output) { return f16_to_f32(load<uint16_t>(halves + 2 * output)); }
float float_at(const std::byte* floats, int64_t output) { return load<float>(floats + 4 * output); }

// The codes u of inputs 4 * step to 4 * step + 3 of one output, one a byte (MXFP4: what they stand for, plus 12).
template <Encoding encoding>
uint32_t codes(const Strip& strip, int64_t step, int64_t output) {
  constexpr StripFormat kFormat = format_of(encoding);
  const auto line = [output](const std::byte* part, int64_t index) {
    return load<uint32_t>(part + index * kLineBytes + 4 * output);
  };
  if constexpr (kFormat.low_bits == 8) return line(strip.low, step);
  if constexpr (kFormat.low_bits == 2) {
    const uint32_t low = line(strip.low, step / 4) >> 2 * (step % 4) & 0x03030303u;
    if constexpr (kFormat.high_bits == 0) return low;
    return low | (line(strip.high, step / 8) >> step % 8 & 0x01010101u) << 2;
  }
  uint32_t word = line(strip.low, step / 2) >> 4 * (step % 2) & 0x0f0f0f0fu;
  if constexpr (kFormat.high_bits == 1) word |= (line(strip.high, step / 8) >> step % 8 & 0x01010101u) << 4;
  if constexpr (kFormat.high_bits == 2) word |= (line(strip.high, step / 4) >> 2 * (step % 4) & 0x03030303u) << 4;
  if constexpr (encoding == Encoding::kMXFP4) return fp4_values(word);
  return word;
}

// What a group of inputs of one output has in common: weight = scale * (u - kZero) [+ offset].
struct GroupScale {
  float scale, offset;
};

template <Encoding encoding>
GroupScale group_scale(const Strip& strip, int64_t group, int64_t output) {
  if constexpr (encoding == Encoding::kMXFP4)
    return {half_e8m0_to_f32(load<uint8_t>(strip.scales + 16 * group + output)), 0};
  if constexpr (encoding == Encoding::kQ4_1 || encoding == Encoding::kQ5_1)
    return {half_at(strip.scales + 64 * group, output), half_at(strip.scales + 64 * group + 32, output)};
  if constexpr (encoding == Encoding::kQ6_K) {
    const auto scale = static_cast<float>(load<int8_t>(strip.scales + 16 * group + output));
    return {half_at(strip.scales + 256, output) * scale, 0};
  }
  if constexpr (encoding == Encoding::kQ4_K || encoding == Encoding::kQ5_K) {
    const std::byte* words = strip.scales + kLineBytes + 4 * output;
    const auto w0 = load<uint32_t>(words), w1 = load<uint32_t>(words + 64), w2 = load<uint32_t>(words + 128);
    const auto upper = 16 * (group / 4) + 2 * (group % 4);
    const uint32_t scale = (w0 >> 4 * group & 15) | (w2 >> upper & 3) << 4;
    const uint32_t minimum = (w1 >> 4 * group & 15) | (w2 >> (8 + upper) & 3) << 4;
    return {half_at(strip.scales, output) * static_cast<float>(scale),
            -(half_at(strip.scales + 32, output) * static_cast<float>(minimum))};
  }
  if constexpr (encoding == Encoding::kQ2_K) {
    const int pair = load<uint8_t>(strip.scales + 16 * group + output);
    return {half_at(strip.scales + 256, output) * static_cast<float>(pair & 15),
            -(half_at(strip.scales + 288, output) * static_cast<float>(pair >> 4))};
  }
  if constexpr (encoding == Encoding::kQ3_K) {
    const int low = load<uint8_t>(strip.scales + 16 * (group / 2) + output) >> 4 * (group % 2) & 15;
    const int high = load<uint8_t>(strip.scales + 128 + 16 * (group / 4) + output) >> 2 * (group % 4) & 3;
    return {half_at(strip.scales + 192, output) * static_cast<float>((low | high << 4) - 32), 0};
  }
  if constexpr (encoding == Encoding::kIQ4_XS) {
    const int low = load<uint8_t>(strip.scales + 32 + 16 * (group / 2) + output) >> 4 * (group % 2) & 15;
    const int high = load<uint8_t>(strip.scales + 96 + 16 * (group / 4) + output) >> 2 * (group % 4) & 3;
    return {half_at(strip.scales, output) * static_cast<float>((low | high << 4) - 32), 0};
  }
  if constexpr (encoding == Encoding::kCodes4 || encoding == Encoding::kCodes8)
    return {float_at(strip.scales + 128 * group, output), float_at(strip.scales + 128 * group + 64, output)};
  if constexpr (encoding == Encoding::kF8E4M3) return {float_at(strip.scales + 64 * group, output), 0};
  return {half_at(strip.scales + 32 * group, output), 0};
}

// What a code stands for before it is scaled.
template <Encoding encoding>
float value(uint32_t code) {
  constexpr int kZero = encoding == Encoding::kQ8_0    ? 128
                        : encoding == Encoding::kQ4_0  ? 8
                        : encoding == Encoding::kQ5_0  ? 16
                        : encoding == Encoding::kQ6_K  ? 32
                        : encoding == Encoding::kQ3_K  ? 4
                        : encoding == Encoding::kMXFP4 ? kFp4Zero
                                                       : 0;
  if constexpr (encoding == Encoding::kF8E4M3) return e4m3_to_f32(code);
  if constexpr (encoding == Encoding::kIQ4_NL || encoding == Encoding::kIQ4_XS)
    return static_cast<float>(kIq4Values[code]);
  return static_cast<float>(static_cast<int>(code) - kZero);
}

template <Encoding encoding>
float weight(uint32_t code, float scale, float offset) {
  constexpr bool kOffset = encoding == Encoding::kQ4_1 || encoding == Encoding::kQ5_1 || encoding == Encoding::kQ4_K ||
                           encoding == Encoding::kQ5_K || encoding == Encoding::kQ2_K ||
                           encoding == Encoding::kCodes4 || encoding == Encoding::kCodes8;
  const float product = scale * value<encoding>(code);
  if constexpr (kOffset) return product + offset;
  return product;  // no + 0: it would turn -0 into +0
}

// Outputs [first, first + width) of a strip into out[inputs][width].
template <Encoding encoding, int width>
void expand(const Strip& strip, int64_t first, float* out) {
  constexpr bool kSixteen = encoding == Encoding::kQ6_K || encoding == Encoding::kQ2_K || encoding == Encoding::kQ3_K;
  constexpr int64_t kGroup = kSixteen ? 16 : 32;
  for (int64_t group = 0; group < strip.inputs / kGroup; ++group) {
    float scale[width], offset[width];
    for (int o = 0; o < width; ++o) {
      const GroupScale s = group_scale<encoding>(strip, group, first + o);
      scale[o] = s.scale;
      offset[o] = s.offset;
    }
    for (int64_t step = group * kGroup / 4; step < (group + 1) * kGroup / 4; ++step) {
      uint32_t words[width];
      for (int o = 0; o < width; ++o) words[o] = codes<encoding>(strip, step, first + o);
      for (int i = 0; i < 4; ++i, out += width)
        for (int o = 0; o < width; ++o) out[o] = weight<encoding>(words[o] >> 8 * i & 0xff, scale[o], offset[o]);
    }
  }
}

template <typename T, int width>
void expand_plain(const Strip& strip, int64_t first, float (*to_float)(T), float* out) {
  constexpr int64_t kStride = kPanelWidth / width * static_cast<int64_t>(sizeof(T));  // all outputs or one: even steps
  const std::byte* src = strip.low + first * static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < strip.inputs * width; ++i) out[i] = to_float(load<T>(src + i * kStride));
}

void expand_blocks(Encoding encoding, const Strip& strip, float* out) {
  ExpandedStrip expanded;
  strip_expander(encoding)(strip.low, strip.inputs, &expanded);
  for (int64_t i = 0; i < strip.inputs; ++i) {
    for (int64_t o = 0; o < kPanelWidth; ++o, ++out)
      *out = expanded.d[i / 16][o] * static_cast<float>(expanded.lines[i / 4][4 * o + i % 4] - kExpandedOffset);
  }
}

// One output's blocks, as they were in the file.
void convert_blocks(Encoding encoding, const Strip& strip, int64_t output, float* out) {
  const BlockCodec& codec = *block_codec(format_of(encoding).dtype);
  codec.convert(strip.low + output * (strip.inputs / codec.inputs * codec.bytes), strip.inputs, out);
}

template <int width>
void expand(Encoding encoding, const Strip& strip, int64_t first, float* out) {
  switch (encoding) {
    case Encoding::kF32:
      return expand_plain<float, width>(
          strip, first, [](float f) { return f; }, out);
    case Encoding::kF16:
      return expand_plain<uint16_t, width>(strip, first, f16_to_f32, out);
    case Encoding::kBF16:
      return expand_plain<uint16_t, width>(strip, first, bf16_to_f32, out);
    case Encoding::kQ8_0:
      return expand<Encoding::kQ8_0, width>(strip, first, out);
    case Encoding::kQ4_0:
      return expand<Encoding::kQ4_0, width>(strip, first, out);
    case Encoding::kQ4_1:
      return expand<Encoding::kQ4_1, width>(strip, first, out);
    case Encoding::kQ5_0:
      return expand<Encoding::kQ5_0, width>(strip, first, out);
    case Encoding::kQ5_1:
      return expand<Encoding::kQ5_1, width>(strip, first, out);
    case Encoding::kMXFP4:
      return expand<Encoding::kMXFP4, width>(strip, first, out);
    case Encoding::kQ4_K:
      return expand<Encoding::kQ4_K, width>(strip, first, out);
    case Encoding::kQ5_K:
      return expand<Encoding::kQ5_K, width>(strip, first, out);
    case Encoding::kQ6_K:
      return expand<Encoding::kQ6_K, width>(strip, first, out);
    case Encoding::kIQ4_NL:
      return expand<Encoding::kIQ4_NL, width>(strip, first, out);
    case Encoding::kIQ4_XS:
      return expand<Encoding::kIQ4_XS, width>(strip, first, out);
    case Encoding::kQ2_K:
      return expand<Encoding::kQ2_K, width>(strip, first, out);
    case Encoding::kQ3_K:
      return expand<Encoding::kQ3_K, width>(strip, first, out);
    case Encoding::kCodes4:
      return expand<Encoding::kCodes4, width>(strip, first, out);
    case Encoding::kCodes8:
      return expand<Encoding::kCodes8, width>(strip, first, out);
    case Encoding::kF8E4M3:
      return expand<Encoding::kF8E4M3, width>(strip, first, out);
    default:
      if constexpr (width == 1) return convert_blocks(encoding, strip, first, out);
      return expand_blocks(encoding, strip, out);
  }
}

Strip strip_of(const PackedMatrix& matrix, int64_t panel, int64_t strip) {
  const int64_t inputs = std::min<int64_t>(kStripInputs, matrix.k - strip * kStripInputs);
  const StripLayout layout = strip_layout(matrix.encoding, inputs);
  const std::byte* start = matrix.data + panel * panel_bytes(matrix.encoding, matrix.k) +
                           strip * strip_layout(matrix.encoding, kStripInputs).bytes;
  return {start, start + layout.low, start + layout.high, inputs};
}

}  // namespace

void unpack_strip(const PackedMatrix& matrix, int64_t panel, int64_t strip, float* out) {
  COLIBRI_CHECK(panel >= 0 && panel < matrix.panels() && strip >= 0 && strip * kStripInputs < matrix.k);
  expand<kPanelWidth>(matrix.encoding, strip_of(matrix, panel, strip), 0, out);
}

ExpandStrip strip_expander(Encoding encoding) {
  COLIBRI_CHECK(is_blocks(encoding));
  return block_codec(format_of(encoding).dtype)->expand;
}

void unpack_row(const PackedMatrix& matrix, int64_t row, float* out) {
  COLIBRI_CHECK(row >= 0 && row < matrix.n);
  for (int64_t first = 0; first < matrix.k; first += kStripInputs)
    expand<1>(matrix.encoding, strip_of(matrix, row / kPanelWidth, first / kStripInputs), row % kPanelWidth,
              out + first);
}

}  // namespace colibri

#include "tensor/packed.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/convert.h"

namespace colibri {
namespace {

constexpr int kQ8Inputs = 32;                // inputs per scale
constexpr int kQ8FileBlock = 2 + kQ8Inputs;  // half, int8[32]
constexpr int kQ8Scales = 2 * kPanelWidth;   // bytes before the q of a packed group
constexpr int kQ8Group = kQ8Scales + kQ8Inputs * kPanelWidth;
// Inputs moved at once: source lines and the destination block stay in the first cache while rows become columns.
constexpr int64_t kStrip = 32;

// One panel of a plain type: `rows` rows of src become columns, the others zero.
template <typename T>
void pack_panel(const std::byte* src, int64_t rows, int64_t k, std::byte* dst) {
  for (int64_t first = 0; first < k; first += kStrip) {
    const int64_t n = std::min(kStrip, k - first);
    T strip[kStrip * kPanelWidth] = {};
    for (int64_t r = 0; r < rows; ++r) {
      T line[kStrip];
      std::memcpy(line, src + (r * k + first) * static_cast<int64_t>(sizeof(T)), static_cast<size_t>(n) * sizeof(T));
      for (int64_t i = 0; i < n; ++i) strip[i * kPanelWidth + r] = line[i];
    }
    std::memcpy(dst + first * kPanelWidth * static_cast<int64_t>(sizeof(T)), strip,
                static_cast<size_t>(n * kPanelWidth) * sizeof(T));
  }
}

void pack_q8_0_panel(const std::byte* src, int64_t rows, int64_t k, std::byte* dst) {
  const int64_t blocks = k / kQ8Inputs;
  for (int64_t b = 0; b < blocks; ++b) {
    std::byte group[kQ8Group] = {};
    for (int64_t r = 0; r < rows; ++r) {
      const std::byte* block = src + (r * blocks + b) * kQ8FileBlock;
      std::memcpy(group + 2 * r, block, 2);
      for (int i = 0; i < kQ8Inputs; ++i) group[kQ8Scales + i * kPanelWidth + r] = block[2 + i];
    }
    std::memcpy(dst + b * kQ8Group, group, kQ8Group);
  }
}

void pack_panel(Encoding encoding, const std::byte* src, int64_t rows, int64_t k, std::byte* dst) {
  switch (encoding) {
    case Encoding::kF32:
      pack_panel<uint32_t>(src, rows, k, dst);
      return;
    case Encoding::kF16:
    case Encoding::kBF16:
      pack_panel<uint16_t>(src, rows, k, dst);
      return;
    case Encoding::kQ8_0:
      pack_q8_0_panel(src, rows, k, dst);
      return;
  }
}

// Column `lane` of a plain panel, converted.
void unpack_plain(DType dtype, const std::byte* panel, int64_t lane, int64_t k, float* out) {
  const int64_t size = info(dtype).block_bytes;
  for (int64_t i = 0; i < k; ++i) convert_to_f32(dtype, panel + (i * kPanelWidth + lane) * size, 1, out + i);
}

void unpack_q8_0(const std::byte* panel, int64_t lane, int64_t k, float* out) {
  for (int64_t first = 0; first < k; first += kQ8Inputs, panel += kQ8Group) {
    uint16_t scale;
    std::memcpy(&scale, panel + 2 * lane, sizeof scale);
    for (int64_t i = 0; i < kQ8Inputs; ++i) {
      const auto q = static_cast<int8_t>(panel[kQ8Scales + i * kPanelWidth + lane]);
      out[first + i] = f16_to_f32(scale) * static_cast<float>(q);
    }
  }
}

}  // namespace

std::string_view name(Encoding encoding) {
  switch (encoding) {
    case Encoding::kF32:
      return "f32";
    case Encoding::kF16:
      return "f16";
    case Encoding::kBF16:
      return "bf16";
    case Encoding::kQ8_0:
      return "q8_0";
  }
  return "unknown";
}

std::optional<Encoding> encoding_for(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return Encoding::kF32;
    case DType::kF16:
      return Encoding::kF16;
    case DType::kBF16:
      return Encoding::kBF16;
    case DType::kQ8_0:
      return Encoding::kQ8_0;
    default:
      return std::nullopt;
  }
}

int64_t panel_bytes(Encoding encoding, int64_t k) {
  switch (encoding) {
    case Encoding::kF32:
      return 4 * kPanelWidth * k;
    case Encoding::kF16:
    case Encoding::kBF16:
      return 2 * kPanelWidth * k;
    case Encoding::kQ8_0:
      COLIBRI_CHECK(k % kQ8Inputs == 0);
      return k / kQ8Inputs * kQ8Group;
  }
  return 0;
}

int64_t packed_bytes(Encoding encoding, int64_t n, int64_t k) {
  return (n + kPanelWidth - 1) / kPanelWidth * panel_bytes(encoding, k);
}

void pack_rows(DType dtype, const std::byte* src, int64_t first, int64_t count, int64_t n, int64_t k, std::byte* dst) {
  const std::optional<Encoding> encoding = encoding_for(dtype);
  COLIBRI_CHECK(encoding && first % kPanelWidth == 0 && first + count <= n);
  COLIBRI_CHECK(count % kPanelWidth == 0 || first + count == n);
  const int64_t row_bytes = k / info(dtype).block_elements * info(dtype).block_bytes;
  const int64_t panel = panel_bytes(*encoding, k);
  for (int64_t row = 0; row < count; row += kPanelWidth) {
    const int64_t rows = std::min<int64_t>(kPanelWidth, count - row);
    pack_panel(*encoding, src + row * row_bytes, rows, k, dst + (first + row) / kPanelWidth * panel);
  }
}

void unpack_row(const PackedMatrix& matrix, int64_t row, float* out) {
  COLIBRI_CHECK(row >= 0 && row < matrix.n);
  const std::byte* panel = matrix.data + row / kPanelWidth * panel_bytes(matrix.encoding, matrix.k);
  const int64_t lane = row % kPanelWidth;
  switch (matrix.encoding) {
    case Encoding::kF32:
      unpack_plain(DType::kF32, panel, lane, matrix.k, out);
      return;
    case Encoding::kF16:
      unpack_plain(DType::kF16, panel, lane, matrix.k, out);
      return;
    case Encoding::kBF16:
      unpack_plain(DType::kBF16, panel, lane, matrix.k, out);
      return;
    case Encoding::kQ8_0:
      unpack_q8_0(panel, lane, matrix.k, out);
      return;
  }
}

}  // namespace colibri

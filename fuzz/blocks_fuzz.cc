// Blocks of every file type: converted, packed and expanded again, by row and by strip, which must agree. Input: a byte
// that chooses the type, then the bytes of whole blocks of one row (what is left over is ignored).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "fuzz.h"
#include "tensor/convert.h"
#include "tensor/packed.h"
#include "tensor/unpack.h"

namespace {

using namespace colibri;

/// Bit by bit; of NaN only that it is one.
bool same(const std::vector<float>& a, const float* b, int64_t stride) {
  return std::all_of(a.begin(), a.end(), [&, i = int64_t{0}](float value) mutable {
    const float other = b[i++ * stride];
    return std::isnan(value) ? std::isnan(other) : std::memcmp(&value, &other, sizeof value) == 0;
  });
}

void check(const DTypeInfo& type, const std::byte* blocks, int64_t inputs) {
  std::vector<float> want(static_cast<size_t>(inputs)), got(want);
  convert_to_f32(type.dtype, blocks, inputs, want.data());
  const Encoding encoding = *encoding_for(type.dtype);
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(encoding, 1, inputs)));
  pack_rows(type.dtype, blocks, 0, 1, 1, inputs, packed.data());
  const PackedMatrix matrix{encoding, 1, inputs, packed.data()};
  unpack_row(matrix, 0, got.data());
  COLIBRI_CHECK(same(want, got.data(), 1));
  std::vector<float> strip(static_cast<size_t>(kStripInputs * kPanelWidth));
  for (int64_t first = 0; first < inputs; first += kStripInputs) {
    unpack_strip(matrix, 0, first / kStripInputs, strip.data());
    const auto begin = want.begin() + first;
    COLIBRI_CHECK(same({begin, begin + std::min<int64_t>(kStripInputs, inputs - first)}, strip.data(), kPanelWidth));
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const DTypeInfo& type = info(static_cast<DType>(data[0] % static_cast<int>(DType::kCount)));
  const auto blocks = static_cast<int64_t>((size - 1) / static_cast<size_t>(type.block_bytes));
  if (type.readable && blocks > 0)
    check(type, reinterpret_cast<const std::byte*>(data + 1), blocks * type.block_elements);
  return 0;
}

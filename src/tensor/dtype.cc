#include "tensor/dtype.h"

#include <array>
#include <cstddef>

#include "base/check.h"

namespace colibri {
namespace {

constexpr size_t kCount = static_cast<size_t>(DType::kCount);

// clang-format off
constexpr std::array<DTypeInfo, kCount> kTable = {{
    // dtype, name, elements and bytes per block, ggml id, safetensors name, readable
    {DType::kF64, "F64", 1, 8, 28, "F64", false},
    {DType::kF32, "F32", 1, 4, 0, "F32", true},
    {DType::kF16, "F16", 1, 2, 1, "F16", true},
    {DType::kBF16, "BF16", 1, 2, 30, "BF16", true},
    {DType::kF8E4M3, "F8_E4M3", 1, 1, -1, "F8_E4M3", false},
    {DType::kF8E5M2, "F8_E5M2", 1, 1, -1, "F8_E5M2", false},
    {DType::kF8E8M0, "F8_E8M0", 1, 1, -1, "F8_E8M0", false},
    {DType::kF8E4M3FNUZ, "F8_E4M3FNUZ", 1, 1, -1, "F8_E4M3FNUZ", false},
    {DType::kF8E5M2FNUZ, "F8_E5M2FNUZ", 1, 1, -1, "F8_E5M2FNUZ", false},
    {DType::kF6E2M3, "F6_E2M3", 4, 3, -1, "F6_E2M3", false},
    {DType::kF6E3M2, "F6_E3M2", 4, 3, -1, "F6_E3M2", false},
    {DType::kF4, "F4", 2, 1, -1, "F4", false},
    {DType::kC64, "C64", 1, 8, -1, "C64", false},
    {DType::kI64, "I64", 1, 8, 27, "I64", false},
    {DType::kI32, "I32", 1, 4, 26, "I32", false},
    {DType::kI16, "I16", 1, 2, 25, "I16", false},
    {DType::kI8, "I8", 1, 1, 24, "I8", false},
    {DType::kU64, "U64", 1, 8, -1, "U64", false},
    {DType::kU32, "U32", 1, 4, -1, "U32", false},
    {DType::kU16, "U16", 1, 2, -1, "U16", false},
    {DType::kU8, "U8", 1, 1, -1, "U8", false},
    {DType::kBool, "BOOL", 1, 1, -1, "BOOL", false},
    {DType::kQ4_0, "Q4_0", 32, 18, 2, "", true},
    {DType::kQ4_1, "Q4_1", 32, 20, 3, "", true},
    {DType::kQ5_0, "Q5_0", 32, 22, 6, "", true},
    {DType::kQ5_1, "Q5_1", 32, 24, 7, "", true},
    {DType::kQ8_0, "Q8_0", 32, 34, 8, "", true},
    {DType::kQ8_1, "Q8_1", 32, 40, 9, "", false},
    {DType::kQ2_K, "Q2_K", 256, 84, 10, "", true},
    {DType::kQ3_K, "Q3_K", 256, 110, 11, "", true},
    {DType::kQ4_K, "Q4_K", 256, 144, 12, "", true},
    {DType::kQ5_K, "Q5_K", 256, 176, 13, "", true},
    {DType::kQ6_K, "Q6_K", 256, 210, 14, "", true},
    {DType::kQ8_K, "Q8_K", 256, 292, 15, "", false},
    {DType::kIQ2_XXS, "IQ2_XXS", 256, 66, 16, "", true},
    {DType::kIQ2_XS, "IQ2_XS", 256, 74, 17, "", true},
    {DType::kIQ3_XXS, "IQ3_XXS", 256, 98, 18, "", true},
    {DType::kIQ1_S, "IQ1_S", 256, 50, 19, "", true},
    {DType::kIQ4_NL, "IQ4_NL", 32, 18, 20, "", true},
    {DType::kIQ3_S, "IQ3_S", 256, 110, 21, "", true},
    {DType::kIQ2_S, "IQ2_S", 256, 82, 22, "", true},
    {DType::kIQ4_XS, "IQ4_XS", 256, 136, 23, "", true},
    {DType::kIQ1_M, "IQ1_M", 256, 56, 29, "", true},
    {DType::kTQ1_0, "TQ1_0", 256, 54, 34, "", true},
    {DType::kTQ2_0, "TQ2_0", 256, 66, 35, "", true},
    {DType::kMXFP4, "MXFP4", 32, 17, 39, "", true},
    {DType::kNVFP4, "NVFP4", 64, 36, 40, "", true},
    {DType::kQ1_0, "Q1_0", 128, 18, 41, "", true},
}};
// clang-format on

constexpr bool rows_follow_the_enum() {
  for (size_t i = 0; i < kCount; ++i)
    if (kTable[i].dtype != static_cast<DType>(i)) return false;
  return true;
}
static_assert(rows_follow_the_enum());

}  // namespace

const DTypeInfo& info(DType dtype) {
  COLIBRI_CHECK(dtype < DType::kCount);
  return kTable[static_cast<size_t>(dtype)];
}

std::optional<DType> dtype_from_gguf(uint32_t id) {
  for (const DTypeInfo& row : kTable)
    if (row.gguf_id >= 0 && static_cast<uint32_t>(row.gguf_id) == id) return row.dtype;
  return std::nullopt;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const DTypeInfo& row : kTable)
    if (row.safetensors == name) return row.dtype;
  return std::nullopt;
}

std::string_view removed_gguf_type(uint32_t id) {
  switch (id) {
    case 4:
      return "Q4_2";
    case 5:
      return "Q4_3";
    case 31:
      return "Q4_0_4_4";
    case 32:
      return "Q4_0_4_8";
    case 33:
      return "Q4_0_8_8";
    case 36:
      return "IQ4_NL_4_4";
    case 37:
      return "IQ4_NL_4_8";
    case 38:
      return "IQ4_NL_8_8";
    default:
      return {};
  }
}

}  // namespace colibri

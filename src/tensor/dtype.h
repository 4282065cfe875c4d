// DType: how the elements of a tensor are stored in a file, as one table from which sizes, names and ids follow.
//
// Every type that safetensors and GGUF know has a row, so that `inspect` can name it; `readable` says whether this
// version can turn it into numbers (tensor/convert.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace colibri {

// clang-format off
enum class DType : uint8_t {
  kF64, kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kF8E8M0, kF8E4M3FNUZ, kF8E5M2FNUZ, kF6E2M3, kF6E3M2, kF4, kC64,
  kI64, kI32, kI16, kI8, kU64, kU32, kU16, kU8, kBool,
  kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ8_1, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kQ8_K,
  kIQ2_XXS, kIQ2_XS, kIQ3_XXS, kIQ1_S, kIQ4_NL, kIQ3_S, kIQ2_S, kIQ4_XS, kIQ1_M, kTQ1_0, kTQ2_0, kMXFP4, kNVFP4, kQ1_0,
  kCount
};
// clang-format on

struct DTypeInfo {
  DType dtype;
  std::string_view name;  ///< as the file formats spell it: "BF16", "Q8_0"
  int block_elements;     ///< elements per block; 1 for plain types
  int block_bytes;
  int gguf_id;                   ///< ggml_type, or -1
  std::string_view safetensors;  ///< name in a safetensors header, or empty
  bool readable;                 ///< convert_to_f32 accepts it
};

const DTypeInfo& info(DType dtype);
std::optional<DType> dtype_from_gguf(uint32_t id);
std::optional<DType> dtype_from_safetensors(std::string_view name);
/// The name of a ggml_type that once was and no longer is ("Q4_0_4_4"), or empty: for error messages.
std::string_view removed_gguf_type(uint32_t id);

}  // namespace colibri

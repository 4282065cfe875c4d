// Quantisation: what `quantization_config` in a config.json says about how the weights are stored.
//
// Which modules are quantised, the names of their tensors tell (store/quantised_source.h); this says what the tensors
// mean. A method that cannot be decoded exactly is refused with advice which files of the same model to fetch instead,
// and so is a key that nobody here knows, since it may change the numbers. Pure functions; the text is not trusted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace colibri::formats {

/// How codes lie in files.
enum class Storage : uint8_t {
  kFp8,         ///< weight F8_E4M3 [out, in] and weight_scale_inv, weight_scale or scale
  kFp4,         ///< two E2M1 codes per byte: weight_packed, weight or NAME_blocks [out, in / 2], and scales
  kPackedInts,  ///< weight_packed I32 [out, in * bits / 32], weight_scale
  kInt8,        ///< weight I8 [out, in], weight_scale
  kGptq,        ///< qweight I32 [in * bits / 32, out], qzeros, scales, g_idx
  kAwq,         ///< qweight I32 [in, out / 8], qzeros, scales
};

/// How one group of modules is stored.
struct QuantScheme {
  Storage storage = Storage::kFp8;
  int bits = 8;
  /// Inputs and outputs that share a scale; 0: all of them, or as the shape of the scales says (kFp8, kInt8).
  int64_t group_inputs = 0, group_outputs = 1;
  bool symmetric = true;          ///< no zero points
  bool act_order = false;         ///< an index says which group an input is of
  bool zero_plus_one = false;     ///< zero points are kept less one
  bool global_scale = false;      ///< scales have a common factor,
  bool divide_by_global = false;  ///< or a common divisor

  bool operator==(const QuantScheme&) const = default;
};

struct Quantisation {
  std::string method;                ///< as the config names it
  std::vector<QuantScheme> schemes;  ///< empty: nothing is quantised

  /// "gptq, 4 bits, groups of 128, act order", for people; empty when nothing is quantised.
  std::string describe() const;
};

/// Reads "quantization_config" (and refuses "quantization") of a model's config. kUnsupported names the method or key
/// and what to do; kInvalidModel when a value makes no sense. `source` is the file, for messages.
Result<Quantisation> read_quantisation(const Json& config, const std::string& source);

}  // namespace colibri::formats

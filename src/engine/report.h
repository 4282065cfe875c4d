// Reports on a model's files: inspect (headers only) and validate (every byte). Neither keeps anything in memory.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace colibri::engine {

/// Family, shape, quantisation, tokenizer, files; with `tensors` every tensor.
Result<Json> inspect_model(const std::string& path, bool tensors);

struct Validation {
  Json report;  ///< {"ok", "checked": {...}, "problems": [{"what", "file", "tensor"}]}
  bool ok = false;
  std::string first_problem;
};

/// Every tensor there with the right shape and finite, files whole, the tokenizer fits; problems are collected, not
/// stopped at. With `tokenizer_only` just vocabulary and template. An Error only when the files cannot be opened at
/// all.
Result<Validation> validate_model(const std::string& path, bool tokenizer_only);

}  // namespace colibri::engine

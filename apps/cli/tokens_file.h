// Files of token ids: {"prompts": [[ids], ...]}.
#pragma once

#include <string>
#include <vector>

#include "common/failure.h"

namespace colibri::cli {

using namespace common;

/// The prompts of a file. With `bare_array` the file may also be one array of ids. Every prompt has at least one token.
Outcome<std::vector<TokenIds>> read_tokens_file(const std::string& path, bool bare_array);

/// Refuses ids that the model does not have, by prompt and position.
Status check_ids(const std::vector<TokenIds>& prompts, int32_t vocab_size, const std::string& path);

}  // namespace colibri::cli

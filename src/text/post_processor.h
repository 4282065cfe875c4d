// Post-processor: the tokens that a tokenizer.json puts around a text (BOS and the like).
//
// Thread-safety: a plain value.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "base/token_ids.h"

namespace colibri::text {

struct PostProcessor {
  TokenIds prefix, suffix;

  /// The member "post_processor" of a tokenizer.json; null or absent adds nothing. Errors name what is not supported.
  static Result<PostProcessor> parse(const Json* json);
};

}  // namespace colibri::text

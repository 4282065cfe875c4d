// Base64 (RFC 4648, padded): how tiktoken, tekken and tokenizer.json files write bytes. Thread-safety: a free function.
#pragma once

#include <string>
#include <string_view>

namespace colibri::text {

/// Appends the bytes; false when `text` is no base64, and then `out` holds part of them.
bool append_base64(std::string_view text, std::string& out);

}  // namespace colibri::text

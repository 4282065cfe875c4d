// Ids of tool calls that the model did not write itself.
//
// The same seed and index give the same id, so that a repeated answer is the same to the byte. Thread-safety: free
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace colibri::text {

enum class IdStyle : uint8_t {
  kCall,  ///< "call_" and 24 hexadecimal digits, as most clients know them
  kNine,  ///< nine letters and digits: Mistral's templates refuse others
};

std::string made_call_id(std::string_view seed, int index, IdStyle style);
/// Whether `id` is one of this style (kCall: any but an empty one).
bool is_call_id(std::string_view id, IdStyle style);

}  // namespace colibri::text

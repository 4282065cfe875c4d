// StrictObject: a JSON object whose every key must be asked for or be known to change nothing.
//
// The first problem is kept and later reads give harmless values, so that a reader is a plain list of assignments that
// ends with finish(). Used for quantization_config, where a key that nobody knows may change what the weights mean.
// Borrows the object. Errors name the object, the key, what it is and what to do.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace colibri::formats {

/// What to do about weights that cannot be decoded: the end of a message.
inline constexpr const char* kInstead =
    "; fetch the original BF16 weights of the model instead, its FP8, GPTQ, AWQ or compressed-tensors version, or a "
    "GGUF file";

class StrictObject {
 public:
  /// `where` is what messages begin with.
  StrictObject(const Json& object, std::string where);

  /// nullptr when absent or null.
  const Json* find(std::string_view key);
  std::string text(std::string_view key, std::string_view fallback);
  bool flag(std::string_view key, bool fallback);
  int64_t number(std::string_view key, int64_t fallback);
  /// At least 1; 0 when it is -1, which means all inputs.
  int64_t group_size(std::string_view key, int64_t fallback);
  /// Absent, null, false or empty.
  void must_be_off(std::initializer_list<std::string_view> keys);
  /// Keys, with blanks between, that change nothing.
  void ignore(std::string_view keys);

  /// kInvalidModel: the value makes no sense.
  void wrong(std::string_view key, const std::string& expected);
  /// kUnsupported, with advice.
  void unsupported(std::string_view key, const std::string& what);

  /// The first problem, or the first key that nobody asked for.
  Status finish();
  const std::string& where() const { return where_; }

 private:
  std::string value_text(std::string_view key) const;
  void fail(ErrorCode code, std::string message);

  const Json& object_;
  std::string where_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace colibri::formats

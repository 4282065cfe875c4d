// Reading the members of a request's JSON object: each is checked where it is read, and the first mistake is kept.
//
// Used by the readers of request bodies (chat_request.h ...). A member that is null counts as absent. After an error
// nothing more is read, so a reader may go on to its end without looking. What nobody asked for is unknown().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.h"
#include "server/errors.h"

namespace colibri::server {

namespace json = common::json;

/// 400 that blames a member of the request.
ApiError bad_request(std::string param, std::string message, std::string code = "invalid_value");

inline std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

class Fields {
 public:
  /// `path`: where the object stands, "messages[3]"; empty: the whole body. Borrows the object.
  explicit Fields(const json::object& object, std::string path = {}) : object_(&object), path_(std::move(path)) {}

  bool ok() const { return !error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }
  /// Keeps the first error.
  void fail(std::string_view name, std::string message, std::string code = "invalid_value");
  void fail(const std::optional<ApiError>& error);

  /// The member, or nullptr when it is absent, null, or an error came before.
  const json::value* find(std::string_view name);
  /// "messages[3].content"
  std::string name_of(std::string_view name) const;

  // Each leaves `out` alone when the member is absent. Whole numbers may be written 5.0.
  bool boolean(std::string_view name, bool& out);
  bool integer(std::string_view name, int64_t low, int64_t high, int64_t& out);
  bool number(std::string_view name, double low, double high, double& out);
  bool text(std::string_view name, std::string& out);
  /// One of `choices`.
  bool choice(std::string_view name, std::initializer_list<std::string_view> choices, std::string& out);
  const json::object* object(std::string_view name);
  const json::array* array(std::string_view name);
  /// A string, or a list of at most `most` strings.
  bool texts(std::string_view name, size_t most, std::vector<std::string>& out);

  /// 400 unless the member is absent or equals what it means to do nothing.
  void refuse(std::string_view name, const json::value& neutral, std::string_view why);
  /// Members that are understood and change nothing.
  void accept(std::initializer_list<std::string_view> names);
  /// Members that nobody asked for.
  std::vector<std::string> unknown() const;

 private:
  const json::object* object_;
  std::string path_;
  std::vector<std::string_view> known_;
  std::optional<ApiError> error_;
};

/// A whole number, also when it is written 5.0; nothing for 1e999, NaN, or what does not fit.
std::optional<int64_t> whole_number(const json::value& value);
/// "a string", "an object" ... of a value, for messages.
std::string_view kind_of(const json::value& value);

}  // namespace colibri::server

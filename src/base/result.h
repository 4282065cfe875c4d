// Errors as values.
//
// Everything that can fail at run time returns Result<T> (or Status, which is Result<void>). An Error carries a code,
// which the C API and the exit status of the program follow from, and one line of text: what, which file, the numbers,
// what to do next. Programming errors are COLIBRI_CHECKs, which abort.
// Thread-safety: plain values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace colibri {

/// Why something failed. The numbers are those of colibri_status in colibri.h.
enum class ErrorCode {
  kFailed = 1,           ///< failed while running
  kUsage = 2,            ///< the caller asked for something that makes no sense
  kInvalidModel = 3,     ///< model path missing, unreadable, damaged
  kDoesNotFit = 4,       ///< not enough memory or disk
  kIo = 5,               ///< an input/output failure after opening
  kCancelled = 6,        ///< the caller cancelled
  kContextOverflow = 7,  ///< a prompt longer than the context
  kUnsupported = 8,      ///< a family, quantisation or feature that is not there
};

struct Error {
  ErrorCode code = ErrorCode::kFailed;
  std::string message;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that `return value;` and `return error;` read well.
  Result(T value) : state_(std::move(value)) {}      // NOLINT(*-explicit-*)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(*-explicit-*)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  /// REQUIRES: ok().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// REQUIRES: !ok().
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

  /// The same result; a failure's message gets "CONTEXT: " in front.
  Result with_context(const std::string& context) && {
    if (!ok()) std::get<1>(state_).message.insert(0, context + ": ");
    return std::move(*this);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(*-explicit-*)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  /// REQUIRES: !ok().
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

  Result with_context(const std::string& context) && {
    if (error_) error_->message.insert(0, context + ": ");
    return std::move(*this);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace colibri

#define COLIBRI_CONCAT_(a, b) a##b
#define COLIBRI_CONCAT(a, b) COLIBRI_CONCAT_(a, b)

/// Returns the error of a Status or Result expression, if it has one.
#define COLIBRI_TRY(expr)                                                                       \
  do {                                                                                          \
    if (auto colibri_try_ = (expr); !colibri_try_.ok()) return std::move(colibri_try_).error(); \
  } while (false)

/// COLIBRI_ASSIGN(auto x, f()): x takes the value of f(), or the function returns f's error.
#define COLIBRI_ASSIGN(lhs, expr) COLIBRI_ASSIGN_(COLIBRI_CONCAT(colibri_result_, __LINE__), lhs, expr)
#define COLIBRI_ASSIGN_(tmp, lhs, expr)         \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return std::move(tmp).error(); \
  lhs = std::move(tmp).value()

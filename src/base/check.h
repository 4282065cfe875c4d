// Checks for programming errors: they abort. Input from outside never reaches a COLIBRI_CHECK; it gets an Error.
#pragma once

namespace colibri {
/// Writes the failed condition to stderr and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}  // namespace colibri

#define COLIBRI_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::colibri::check_failed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define COLIBRI_DCHECK(condition) static_cast<void>(0)
#else
#define COLIBRI_DCHECK(condition) COLIBRI_CHECK(condition)
#endif

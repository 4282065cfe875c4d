// The border between C and C++: errors out, exceptions in, memory across.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "base/result.h"
#include "base/token_ids.h"
#include "colibri/colibri.h"

namespace colibri::capi {

/// Fills `error` (may be null) and returns its status.
colibri_status report(const Error& error, colibri_error* out);
colibri_status report(colibri_status status, std::string_view message, colibri_error* out);

/// Runs `body` (returning Status); nothing it throws crosses the border.
template <typename Body>
colibri_status guarded(colibri_error* out, Body&& body) {
  try {
    const Status status = body();
    return status.ok() ? COLIBRI_OK : report(status.error(), out);
  } catch (const std::bad_alloc&) {
    return report(COLIBRI_DOES_NOT_FIT, "out of memory; close other programs or lower --memory", out);
  } catch (const std::system_error& e) {  // a thread that cannot start
    return report(COLIBRI_DOES_NOT_FIT, std::string("the system gives no more threads or memory: ") + e.what(), out);
  } catch (const std::exception& e) {
    return report(COLIBRI_FAILED, e.what(), out);
  }
}

/// Copies into memory that colibri_string_free releases.
Status export_string(std::string_view text, colibri_string* out);
/// The same for colibri_ids_free.
Status export_ids(const TokenIds& ids, colibri_ids* out);

/// A null argument where one is needed.
inline Error missing_argument(const char* name) {
  return {ErrorCode::kUsage, std::string("argument \"") + name + "\" is NULL"};
}

/// A sized struct whose size was not set.
inline Error missing_size(const char* name) {
  return {ErrorCode::kUsage,
          std::string("struct_size of \"") + name + "\" is not set; use its _init function or sizeof"};
}

}  // namespace colibri::capi

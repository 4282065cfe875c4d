#include "capi/border.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace colibri::capi {

colibri_status report(colibri_status status, std::string_view message, colibri_error* out) {
  if (out == nullptr) return status;
  size_t n = std::min(message.size(), sizeof(out->message) - 1);
  while (n < message.size() && n > 0 && (static_cast<unsigned char>(message[n]) & 0xC0) == 0x80)
    --n;  // whole characters
  out->code = status;
  std::memcpy(out->message, message.data(), n);
  out->message[n] = '\0';
  return status;
}

colibri_status report(const Error& error, colibri_error* out) {
  return report(static_cast<colibri_status>(error.code), error.message, out);
}

Status export_string(std::string_view text, colibri_string* out) {
  auto* data = static_cast<char*>(std::malloc(text.size() + 1));
  if (data == nullptr) throw std::bad_alloc();
  std::memcpy(data, text.data(), text.size());
  data[text.size()] = '\0';
  *out = {data, text.size()};
  return {};
}

Status export_ids(const TokenIds& ids, colibri_ids* out) {
  auto* data = static_cast<int32_t*>(std::malloc(std::max<size_t>(1, ids.size() * sizeof(int32_t))));
  if (data == nullptr) throw std::bad_alloc();
  std::copy(ids.begin(), ids.end(), data);
  *out = {data, ids.size()};
  return {};
}

}  // namespace colibri::capi

extern "C" {

const char* colibri_version(void) { return "0.1.0"; }

const char* colibri_status_name(colibri_status status) {
  switch (status) {
    case COLIBRI_OK:
      return "COLIBRI_OK";
    case COLIBRI_FAILED:
      return "COLIBRI_FAILED";
    case COLIBRI_USAGE:
      return "COLIBRI_USAGE";
    case COLIBRI_INVALID_MODEL:
      return "COLIBRI_INVALID_MODEL";
    case COLIBRI_DOES_NOT_FIT:
      return "COLIBRI_DOES_NOT_FIT";
    case COLIBRI_IO:
      return "COLIBRI_IO";
    case COLIBRI_CANCELLED:
      return "COLIBRI_CANCELLED";
    case COLIBRI_CONTEXT_OVERFLOW:
      return "COLIBRI_CONTEXT_OVERFLOW";
    case COLIBRI_UNSUPPORTED:
      return "COLIBRI_UNSUPPORTED";
  }
  return "unknown";
}

int colibri_exit_code(colibri_status status) {
  switch (status) {
    case COLIBRI_OK:
      return 0;
    case COLIBRI_USAGE:
    case COLIBRI_CONTEXT_OVERFLOW:
      return 2;
    case COLIBRI_INVALID_MODEL:
    case COLIBRI_UNSUPPORTED:
      return 3;
    case COLIBRI_DOES_NOT_FIT:
      return 4;
    case COLIBRI_IO:
      return 5;
    case COLIBRI_CANCELLED:
      return 130;
    case COLIBRI_FAILED:
      break;
  }
  return 1;
}

void colibri_string_free(colibri_string* string) {
  if (string == nullptr) return;
  std::free(string->data);
  *string = {nullptr, 0};
}

void colibri_ids_free(colibri_ids* ids) {
  if (ids == nullptr) return;
  std::free(ids->data);
  *ids = {nullptr, 0};
}

}  // extern "C"

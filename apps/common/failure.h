// How commands of the program fail: api::Error, whose code is the exit status, made by the functions below.
//
// Whatever the exit status, the error is one line: what, which file, the numbers, what to do next.
#pragma once

#include <cstdint>
#include <string>

#include "colibri/colibri.hpp"

namespace colibri::common {

using api::Error;
using api::Outcome;
using api::Status;
using api::TokenIds;

/// Exit 2: the command line, a settings file or the input makes no sense.
inline Error usage_error(std::string message) { return {COLIBRI_USAGE, std::move(message)}; }
/// Exit 5: reading or writing failed after the model was found.
inline Error io_error(std::string message) { return {COLIBRI_IO, std::move(message)}; }
/// Exit 1.
inline Error run_error(std::string message) { return {COLIBRI_FAILED, std::move(message)}; }

/// The error with "CONTEXT: " in front.
inline Error with_context(const Error& error, const std::string& context) {
  return {error.code, context + ": " + error.message};
}

}  // namespace colibri::common

// Text that lies where a file of a model should be: pointers of Git LFS, web pages, nothing. Said by name, because
// "JSON line 1: unexpected character" helps nobody whose download failed.
//
// Called by whoever reads a file of a model. Thread-safety: pure functions. Messages go behind "PATH: ".
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace colibri {

/// What a file is that begins with `head`, and what to do about it ("is a web page ..."); empty when unknown.
std::string describe_foreign_text(std::string_view head);

/// parse_json for the text of a file: kInvalidModel in the words of describe_foreign_text where they apply.
Result<Json> parse_json_file(std::string_view text);

}  // namespace colibri

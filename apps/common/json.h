// JSON of the program: strict bounded parsing, and printing that people can read.
//
// Values are boost::json's. Parsing refuses duplicate keys, nesting beyond 64 and invalid UTF-8. Printing differs from
// boost::json::serialize in two points: numbers are written the short way (1.5, not 1.5E0), and NaN and infinities are
// null.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "common/failure.h"

namespace colibri::common {

namespace json = boost::json;

/// One JSON text. `source` names it in messages: "tokens.json", "line 3 of standard input".
Outcome<json::value> parse_json(std::string_view text, const std::string& source);

/// `indent` < 0: one line with ", " and ": "; else that many blanks per level, arrays of scalars on one line.
std::string dump_json(const json::value& value, int indent = -1);
/// A string as JSON, quotes included.
void append_json_string(std::string& out, std::string_view text);

/// An array of token ids; nothing when an element is no integer of 32 bits. `bad_index` then says which.
std::optional<TokenIds> token_ids(const json::array& array, size_t* bad_index);

}  // namespace colibri::common

// Values as text: Python's str() and repr(), printf-style % and str.format().
//
// Thread-safety: one render, one thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/builtins.h"
#include "text/jinja/runtime.h"

namespace colibri::text::jinja {

/// str(value). Lives as long as the heap (or the value's own text).
Result<std::string_view> to_str(Runtime& rt, const Value& value);
/// repr(value).
Result<std::string_view> to_repr(Runtime& rt, const Value& value);

/// repr of a float: the shortest digits that read back the same, 1e16 and 1e-05 as Python writes them.
std::string float_repr(double value);

/// & < > ' " as HTML entities.
std::string_view escape_html(Runtime& rt, std::string_view text);

/// format % values.
Result<Value> format_percent(Runtime& rt, const Value& format, const Value& values);
/// format.format(*args, **kwargs).
Result<Value> format_braces(Runtime& rt, const Value& format, const Args& args);

/// [[fill]align][sign][#][0][width][,][.precision][type], the mini-language of Python's format().
struct FormatSpec {
  std::string_view fill = " ";
  char align = 0;  ///< < > ^ =; 0: by type
  char sign = '-';
  bool alternate = false;
  char group = 0;  ///< , or _
  int64_t width = 0;
  int64_t precision = -1;  ///< -1: not given
  char type = 0;
};
Result<FormatSpec> parse_format_spec(Runtime& rt, std::string_view text);
Result<std::string_view> apply_format_spec(Runtime& rt, const Value& value, const FormatSpec& spec);

}  // namespace colibri::text::jinja

// Python's int(text, base) and float(text), and round(number, digits).
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace colibri::text::jinja {

/// Nothing when the text is no such number, or one beyond 64 bits. Base 0: by prefix.
std::optional<int64_t> parse_python_int(std::string_view text, int64_t base);
std::optional<double> parse_python_float(std::string_view text);

/// To `digits` decimal places, exact ties to even; negative digits round before the point.
double round_to_digits(double number, int64_t digits);
/// Nothing on overflow.
std::optional<int64_t> round_to_digits(int64_t number, int64_t digits);

}  // namespace colibri::text::jinja

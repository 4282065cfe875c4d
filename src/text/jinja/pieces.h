// Pieces: a text in parts, put together in one go. What error messages are written in.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace colibri::text::jinja {

using Pieces = std::initializer_list<std::string_view>;

inline std::string concat(Pieces pieces) {
  std::string text;
  for (const std::string_view piece : pieces) text.append(piece);
  return text;
}

}  // namespace colibri::text::jinja

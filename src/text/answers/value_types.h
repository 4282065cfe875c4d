// ValueTypes: which JSON types a parameter's schema allows, and a value that a model wrote without quotes as JSON.
//
// Formats that write values as they are (<parameter=k>value</parameter>) leave open whether 12 is a number or a text;
// the tool's schema says. Thread-safety: plain values.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace colibri::text {

struct ValueTypes {
  static constexpr unsigned kString = 1, kNumber = 2, kBoolean = 4, kNull = 8, kObject = 16, kArray = 32, kAny = 63;
  unsigned types = kAny;

  bool string() const { return (types & kString) != 0; }
  bool others() const { return (types & ~kString) != 0; }
};

/// Of the parameter `name` of a tool whose parameters have this schema (may be null); kAny when it does not say.
ValueTypes types_of_parameter(const Json* schema, std::string_view name);

/// The value as JSON text: itself where it is JSON of an allowed type, or no string is allowed; else a string. True,
/// False and None become JSON.
std::string value_as_json(std::string_view raw, ValueTypes types);

}  // namespace colibri::text

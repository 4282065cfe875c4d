#include "text/answers/value_types.h"

#include "text/answers/json_scanner.h"

namespace colibri::text {
namespace {

constexpr int kMaxDepth = 16;  // of anyOf inside anyOf

unsigned type_named(const std::string& name) {
  if (name == "string") return ValueTypes::kString;
  if (name == "integer" || name == "number") return ValueTypes::kNumber;
  if (name == "boolean") return ValueTypes::kBoolean;
  if (name == "null") return ValueTypes::kNull;
  if (name == "object") return ValueTypes::kObject;
  return name == "array" ? ValueTypes::kArray : 0;
}

unsigned types_named(const Json& type) {
  if (type.is_string()) return type_named(type.as_string());
  unsigned types = 0;
  if (type.is_array())
    for (const Json& one : type.as_array())
      if (one.is_string()) types |= type_named(one.as_string());
  return types;
}

unsigned type_of(const Json& value) {
  if (value.is_string()) return ValueTypes::kString;
  if (value.is_number()) return ValueTypes::kNumber;
  if (value.is_bool()) return ValueTypes::kBoolean;
  if (value.is_null()) return ValueTypes::kNull;
  return value.is_object() ? ValueTypes::kObject : ValueTypes::kArray;
}

unsigned types_in(const Json& schema, int depth) {
  if (depth == kMaxDepth || !schema.is_object()) return 0;
  if (const Json* type = schema.find_value("type")) return types_named(*type);
  unsigned types = 0;
  if (const Json* value = schema.find("const")) types |= type_of(*value);
  if (const Json* values = schema.find_value("enum"); values != nullptr && values->is_array())
    for (const Json& value : values->as_array()) types |= type_of(value);
  for (const char* key : {"anyOf", "oneOf"})
    if (const Json* list = schema.find_value(key); list != nullptr && list->is_array())
      for (const Json& one : list->as_array()) types |= types_in(one, depth + 1);
  return types;
}

unsigned type_of_text(std::string_view json) {
  switch (json.front()) {
    case '"':
      return ValueTypes::kString;
    case '{':
      return ValueTypes::kObject;
    case '[':
      return ValueTypes::kArray;
    case 't':
    case 'f':
      return ValueTypes::kBoolean;
    case 'n':
      return ValueTypes::kNull;
    default:
      return ValueTypes::kNumber;
  }
}

// Python's words for JSON's.
std::string_view json_word(std::string_view word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  return word;
}

}  // namespace

ValueTypes types_of_parameter(const Json* schema, std::string_view name) {
  const Json* properties = schema != nullptr ? schema->find_value("properties") : nullptr;
  const Json* parameter = properties != nullptr ? properties->find_value(name) : nullptr;
  const unsigned types = parameter != nullptr ? types_in(*parameter, 0) : 0;
  return {types != 0 ? types : ValueTypes::kAny};
}

std::string value_as_json(std::string_view raw, ValueTypes types) {
  const std::string_view value = json_word(without_blanks_around(raw));
  if (types.others() && is_json(value)) {
    const unsigned type = type_of_text(value);
    const bool fits = (types.types & type) != 0 && type != ValueTypes::kString;  // a text may have quotes of its own
    if (fits || !types.string()) return std::string(value);
  }
  return '"' + json_escaped(raw) + '"';
}

}  // namespace colibri::text

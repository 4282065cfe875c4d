// allOf, and what stands beside $ref and anyOf: one schema that says what several say together.
#include <algorithm>

#include "sampling/grammar/schema.h"

namespace colibri::sampling::grammar {
namespace {

constexpr int kMaxInside = 32;  // allOf and $ref inside each other

bool is_limit_from_below(std::string_view key) {
  return key == "minimum" || key == "exclusiveMinimum" || key == "minLength" || key == "minItems" ||
         key == "minProperties";
}

bool is_limit_from_above(std::string_view key) {
  return key == "maximum" || key == "exclusiveMaximum" || key == "maxLength" || key == "maxItems" ||
         key == "maxProperties";
}

bool is_note(std::string_view key) {
  return key == "title" || key == "description" || key == "default" || key == "examples" || key == "example" ||
         key == "$defs" || key == "definitions" || key == "$comment" || key == "deprecated" || key == "$schema" ||
         key == "$id" || key.substr(0, 2) == "x-";
}

Json::Array as_list(const Json& value) { return value.is_array() ? value.as_array() : Json::Array{value}; }

bool has(const Json::Array& list, const Json& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// The types that both allow; an integer is a number.
Json common_types(const Json& a, const Json& b) {
  Json::Array common;
  const Json::Array first = as_list(a), second = as_list(b);
  for (const Json& type : first)
    if (has(second, type) || (type == Json("integer") && has(second, "number"))) common.push_back(type);
  for (const Json& type : second)
    if (type == Json("integer") && has(first, "number") && !has(common, type)) common.push_back(type);
  return common;
}

Json both(const Json& a, const Json& b) { return Json().set("allOf", Json::Array{a, b}); }

bool closed(const Json& schema) {
  const Json* others = schema.find("additionalProperties");
  return others && !(others->is_bool() && others->as_bool());
}

// Whether every property of `other` is one of `schema`.
bool names_all(const Json& schema, const Json& other) {
  const Json* names = schema.find("properties");
  const Json* others = other.find("properties");
  if (!others || !others->is_object()) return true;
  return std::all_of(others->as_object().begin(), others->as_object().end(),
                     [&](const auto& member) { return names && names->find(member.first); });
}

}  // namespace

// The schema without allOf and $ref.
Result<Json> SchemaCompiler::flatten(const Json& schema, const Place& place, int depth) {
  COLIBRI_TRY(charge(schema, place));
  if (depth > kMaxInside) return schema_error(place.text(), "has too many allOf or $ref inside each other, or no end");
  if (schema.is_bool() && schema.as_bool()) return Json(Json::Object{});
  if (!schema.is_object()) return schema_error(place.text(), "is no schema that can be merged");
  Json out(Json::Object{});
  for (const auto& [key, member] : schema.as_object())
    if (key != "allOf" && key != "$ref") out.set(key, member);
  std::vector<const Json*> parts;
  if (const Json* ref = schema.find("$ref")) {
    if (!ref->is_string()) return schema_error(place.text("$ref"), "is no string");
    COLIBRI_ASSIGN(const Json* target, find(ref->as_string(), place));
    parts.push_back(target);
  }
  if (const Json* all = schema.find("allOf")) {
    if (!all->is_array()) return schema_error(place.text("allOf"), "is no list of schemas");
    for (const Json& part : all->as_array()) parts.push_back(&part);
  }
  for (const Json* part : parts) {
    COLIBRI_ASSIGN(const Json flat, flatten(*part, place, depth + 1));
    COLIBRI_TRY(merge(out, flat, place));
  }
  return out;
}

Status SchemaCompiler::merge(Json& into, const Json& other, const Place& place) {
  COLIBRI_TRY(charge(into, place));
  if ((closed(into) && !names_all(into, other)) || (closed(other) && !names_all(other, into))) {
    return schema_error(place.text("additionalProperties"),
                        "of one of several schemas that name different properties is not supported");
  }
  for (const auto& [key, member] : other.as_object()) {
    if (!into.find(key)) {
      into.set(key, member);
    } else if (!is_note(key)) {
      COLIBRI_TRY(merge_member(into, key, member, place));
    }
  }
  return {};
}

Status SchemaCompiler::merge_member(Json& into, const std::string& key, const Json& other, const Place& place) {
  const Json mine = *into.find(key);
  const bool numbers = mine.is_number() && other.is_number();
  if (mine == other) return {};
  if (key == "type") {
    into.set(key, common_types(mine, other));
  } else if (numbers && is_limit_from_below(key)) {
    into.set(key, mine.as_double() < other.as_double() ? other : mine);
  } else if (numbers && is_limit_from_above(key)) {
    into.set(key, mine.as_double() > other.as_double() ? other : mine);
  } else if (key == "required" && mine.is_array() && other.is_array()) {
    Json::Array all = mine.as_array();
    for (const Json& name : other.as_array())
      if (!has(all, name)) all.push_back(name);
    into.set(key, all);
  } else if (key == "properties" && mine.is_object() && other.is_object()) {
    Json all = mine;
    for (const auto& [name, schema] : other.as_object()) {
      const Json* present = all.find(name);
      all.set(name, present ? both(*present, schema) : schema);
    }
    into.set(key, all);
  } else if (key == "items" && !mine.is_array() && !other.is_array() && !into.find("prefixItems")) {
    into.set(key, both(mine, other));
  } else if (key == "enum" && mine.is_array() && other.is_array()) {
    Json::Array common;
    for (const Json& value : mine.as_array())
      if (has(other.as_array(), value)) common.push_back(value);
    into.set(key, common);
  } else {
    return schema_error(place.text(key), "of several schemas that differ is not supported");
  }
  return {};
}

}  // namespace colibri::sampling::grammar

#include "sampling/grammar/schema.h"

#include <algorithm>
#include <array>

namespace colibri::sampling::grammar {
namespace {

constexpr int64_t kMaxWork = 1'000'000;
constexpr size_t kMaxReferences = 2048;
constexpr int kMaxInside = 200;  // schemas inside each other

// Keywords that say nothing about which values are right.
constexpr std::string_view kAnnotations[] = {
    "title",      "description",  "default",     "examples", "example",   "$schema",          "$id",
    "$comment",   "$defs",        "definitions", "readOnly", "writeOnly", "contentMediaType", "contentEncoding",
    "deprecated", "discriminator"};
// Keywords that are supported, with the type that they are about ("" for any). Those of other types do not restrict.
constexpr std::pair<std::string_view, std::string_view> kKeywords[] = {
    {"type", ""},
    {"enum", ""},
    {"const", ""},
    {"anyOf", ""},
    {"oneOf", ""},
    {"allOf", ""},
    {"$ref", ""},
    {"nullable", ""},
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"minProperties", "object"},
    {"maxProperties", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"uniqueItems", "array"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"pattern", "string"},
    {"format", "string"},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
};
constexpr std::string_view kTypes[] = {"object", "array", "string", "number", "integer", "boolean", "null"};

bool is_annotation(std::string_view key) {
  return key.substr(0, 2) == "x-" ||
         std::find(std::begin(kAnnotations), std::end(kAnnotations), key) != std::end(kAnnotations);
}

const std::pair<std::string_view, std::string_view>* find_keyword(std::string_view key) {
  const auto found =
      std::find_if(std::begin(kKeywords), std::end(kKeywords), [&](const auto& row) { return row.first == key; });
  return found == std::end(kKeywords) ? nullptr : found;
}

// Whether the schema has a member that restricts, other than `except` and those of a type.
bool has_other(const Json& schema, std::initializer_list<std::string_view> except) {
  return std::any_of(schema.as_object().begin(), schema.as_object().end(), [&](const auto& member) {
    return !is_annotation(member.first) && std::find(except.begin(), except.end(), member.first) == except.end();
  });
}

Json without(const Json& schema, std::initializer_list<std::string_view> keys) {
  Json::Object members;
  for (const auto& member : schema.as_object())
    if (std::find(keys.begin(), keys.end(), member.first) == keys.end()) members.push_back(member);
  return members;
}

bool is_of_type(const Json& value, std::string_view type) {
  if (type == "integer")
    return value.is_int() ||
           (value.is_double() &&
            value.as_double() == static_cast<double>(static_cast<int64_t>(std::clamp(value.as_double(), -9e18, 9e18))));
  if (type == "number") return value.is_number();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  return type == "boolean" ? value.is_bool() : value.is_null();
}

// The types that a schema names or, without "type", those that its other keywords are about; empty: any.
Result<std::vector<std::string_view>> types_of(const Json& schema, const std::string& place) {
  std::vector<std::string_view> types;
  const auto add = [&](std::string_view type) {
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  };
  if (const Json* type = schema.find("type")) {
    const Json::Array one{*type};
    const Json::Array& names = type->is_array() ? type->as_array() : one;
    for (const Json& name : names) {
      const auto* known =
          name.is_string() ? std::find(std::begin(kTypes), std::end(kTypes), name.as_string()) : std::end(kTypes);
      if (known == std::end(kTypes)) return schema_error(place, "this is no type: " + name.dump());
      add(*known);
    }
    if (types.empty()) return schema_error(place, "an empty list of types");
  } else {
    for (const auto& [key, value] : schema.as_object())
      if (const auto* row = find_keyword(key); row && !row->second.empty()) add(row->second);
  }
  const Json* nullable = schema.find("nullable");
  if (!types.empty() && nullable && nullable->is_bool() && nullable->as_bool()) add("null");
  return types;
}

}  // namespace

Error schema_error(const std::string& place, const std::string& what) {
  return {ErrorCode::kUsage, (place.empty() ? std::string("the schema") : place) + " " + what};
}

int64_t n_values(const Json& json) {
  int64_t n = 1;
  if (json.is_array())
    for (const Json& item : json.as_array()) n += n_values(item);
  if (json.is_object())
    for (const auto& member : json.as_object()) n += n_values(member.second);
  return n;
}

Result<int64_t> count_member(const Json& schema, std::string_view key, int64_t fallback, const std::string& place) {
  const Json* value = schema.find(key);
  if (!value) return fallback;
  const double number = value->is_number() ? value->as_double() : -1;
  if (number < 0 || number > 1e15 || number != static_cast<double>(static_cast<int64_t>(number)))
    return schema_error(place, "is no whole number from 0 on");
  return static_cast<int64_t>(number);
}

std::string SchemaCompiler::Place::text() const {
  if (!parent) return std::string(key);
  std::string before = parent->text();
  if (!before.empty() && !key.starts_with('[')) before += '.';
  return before.append(key);
}

// Every value that is read is paid for, again when it is read again.
Status SchemaCompiler::charge(const Json& json, const Place& place) {
  work_ += n_values(json);
  if (work_ > kMaxWork || b_.full()) return schema_error(place.text(), "makes the schema too large");
  return {};
}

Result<State> SchemaCompiler::add(const Json& schema, State from) {
  root_ = &schema;
  references_.clear();
  const Place root{nullptr, ""};
  COLIBRI_TRY(charge(schema, root));
  COLIBRI_ASSIGN(const State to, value(schema, root, from));
  COLIBRI_TRY(define_references());
  return to;
}

Result<State> SchemaCompiler::value(const Json& schema, const Place& place, State from) {
  if (depth_ >= kMaxInside) {
    return schema_error(place.text(),
                        "is too deep, or has a $ref to itself beside other keywords, which is not supported");
  }
  ++depth_;
  Result<State> to = value_inside(schema, place, from);
  --depth_;
  return to;
}

Result<State> SchemaCompiler::value_inside(const Json& schema, const Place& place, State from) {
  if (++work_ > kMaxWork || b_.full()) return schema_error(place.text(), "makes the schema too large");
  if (schema.is_bool()) return schema.as_bool() ? b_.call(from, rules_.value()) : b_.state();
  if (!schema.is_object()) return schema_error(place.text(), "is neither an object nor true or false");
  for (const auto& [key, member] : schema.as_object())
    if (!is_annotation(key) && !find_keyword(key)) return schema_error(place.text(key), "is not supported");
  if (const Json* ref = schema.find("$ref"); ref && !has_other(schema, {"$ref"})) {
    if (!ref->is_string()) return schema_error(place.text("$ref"), "is no string");
    return reference(ref->as_string(), place, from);
  }
  if (const Json* all = schema.find("allOf");
      all && all->is_array() && all->as_array().size() == 1 && !has_other(schema, {"allOf"})) {
    return value(all->as_array()[0], place, from);
  }
  if (schema.find("allOf") || schema.find("$ref")) {
    COLIBRI_ASSIGN(Json merged, flatten(schema, place));
    return value(made_.emplace_back(std::move(merged)), place, from);
  }
  if (schema.find("anyOf") || schema.find("oneOf")) return alternatives(schema, place, from);
  if (schema.find("enum") || schema.find("const")) return listed(schema, place, from);
  return typed(schema, place, from);
}

// What stands beside anyOf holds for each alternative. oneOf is read as anyOf.
Result<State> SchemaCompiler::alternatives(const Json& schema, const Place& place, State from) {
  const std::string_view key = schema.find("anyOf") ? "anyOf" : "oneOf";
  const Json& list = *schema.find(key);
  if (!list.is_array() || list.as_array().empty()) return schema_error(place.text(key), "is no list of schemas");
  if (key == "anyOf" && schema.find("oneOf")) return schema_error(place.text("oneOf"), "beside anyOf is not supported");
  const Json base = without(schema, {key});
  const bool alone = !has_other(base, {"nullable"});
  const State to = b_.state();
  for (size_t i = 0; i < list.as_array().size(); ++i) {
    const std::string index = "[" + std::to_string(i) + "]";
    const Place list_place{&place, key}, at{&list_place, index};
    const Json* alternative = &list.as_array()[i];
    if (!alone) {
      COLIBRI_ASSIGN(const Json flat, flatten(*alternative, at));
      Json merged = base;
      COLIBRI_TRY(merge(merged, flat, at));
      alternative = &made_.emplace_back(std::move(merged));
    }
    COLIBRI_ASSIGN(const State end, value(*alternative, at, from));
    b_.empty(end, to);
  }
  const Json* nullable = schema.find("nullable");
  if (alone && nullable && nullable->is_bool() && nullable->as_bool()) b_.empty(b_.text(from, "null"), to);
  return to;
}

// ---- references ----------------------------------------------------------------------------------------------------

Result<State> SchemaCompiler::reference(const std::string& target, const Place& place, State from) {
  COLIBRI_ASSIGN(const Json* schema, find(target, place));
  const auto [found, is_new] = references_.emplace(schema, 0);
  if (is_new) {
    if (references_.size() > kMaxReferences) return schema_error(place.text(), "makes too many references");
    found->second = b_.declare(false);
    pending_.push_back({found->second, schema, target});
  }
  return b_.call(from, found->second);
}

// Each target becomes a rule of its own, so that a schema may contain itself.
Status SchemaCompiler::define_references() {
  for (; !pending_.empty(); pending_.pop_front()) {
    const Pending& next = pending_.front();
    const Place place{nullptr, next.path};
    const State start = b_.state();
    COLIBRI_ASSIGN(const State end, value(*next.schema, place, start));
    b_.accept(end);
    b_.define(next.rule, start);
  }
  return {};
}

// A JSON pointer into the schema.
Result<const Json*> SchemaCompiler::find(const std::string& target, const Place& place) const {
  const Error nowhere = schema_error(place.text("$ref"), "\"" + target + "\" leads nowhere in this schema");
  if (target.empty() || target[0] != '#' || (target.size() > 1 && target[1] != '/')) return nowhere;
  const Json* at = root_;
  for (size_t begin = 2; begin <= target.size();) {
    const size_t end = std::min(target.find('/', begin), target.size());
    std::string key;
    for (size_t i = begin; i < end; ++i) {
      const bool escape = target[i] == '~' && i + 1 < end;
      key += !escape ? target[i] : target[++i] == '1' ? '/' : '~';
    }
    const Json* next = at->find(key);
    if (!next && at->is_array() && key.size() < 9 && !key.empty() &&
        key.find_first_not_of("0123456789") == std::string::npos) {
      const auto index = static_cast<size_t>(std::stoul(key));
      if (index < at->as_array().size()) next = &at->as_array()[index];
    }
    if (!next) return nowhere;
    at = next;
    begin = end + 1;
  }
  return at;
}

// ---- values --------------------------------------------------------------------------------------------------------

// enum and const: the values of the right types.
Result<State> SchemaCompiler::listed(const Json& schema, const Place& place, State from) {
  for (const auto& [key, member] : schema.as_object()) {
    const auto* row = find_keyword(key);
    if (row && !row->second.empty()) return schema_error(place.text(key), "beside enum or const is not supported");
  }
  const Json* constant = schema.find("const");
  const Json* list = schema.find("enum");
  if (list && !list->is_array()) return schema_error(place.text("enum"), "is no list");
  COLIBRI_ASSIGN(const auto types, types_of(schema, place.text("type")));
  const auto fits = [&](const Json& value) {
    return (!constant || value == *constant) &&
           (types.empty() ||
            std::any_of(types.begin(), types.end(), [&](auto type) { return is_of_type(value, type); }));
  };
  const State to = b_.state();
  const Json::Array one = constant ? Json::Array{*constant} : Json::Array{};
  std::map<std::pair<State, char>, State> prefixes;  // strings share what they begin with
  for (const Json& value : list ? list->as_array() : one) {
    if (b_.full()) break;
    if (!fits(value)) continue;
    if (!value.is_string()) {
      COLIBRI_ASSIGN(const State end, literal(value, place, from));
      b_.empty(end, to);
      continue;
    }
    State at = from;
    for (const char c : escaped_string(value.as_string())) {
      const auto [found, is_new] = prefixes.emplace(std::pair(at, c), 0);
      if (is_new) {
        found->second = b_.state();
        b_.bytes(at, static_cast<uint8_t>(c), static_cast<uint8_t>(c), found->second);
      }
      at = found->second;
    }
    b_.empty(at, to);
  }
  return to;
}

Result<State> SchemaCompiler::typed(const Json& schema, const Place& place, State from) {
  COLIBRI_ASSIGN(const auto types, types_of(schema, place.text("type")));
  if (types.empty()) return b_.call(from, rules_.value());
  const State to = b_.state();
  for (const std::string_view type : types) {
    COLIBRI_ASSIGN(const State end, of_type(type, schema, place, from));
    b_.empty(end, to);
  }
  return to;
}

Result<State> SchemaCompiler::of_type(std::string_view type, const Json& schema, const Place& place, State from) {
  if (type == "object") return object(schema, place, from);
  if (type == "array") return array(schema, place, from);
  if (type == "string") return string(schema, place, from);
  if (type == "number" || type == "integer") return number(schema, place, from, type == "integer");
  if (type == "null") return b_.text(from, "null");
  const State to = b_.state();
  for (const std::string_view word : {"true", "false"}) b_.empty(b_.text(from, word), to);
  return to;
}

}  // namespace colibri::sampling::grammar

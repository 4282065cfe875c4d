// Objects, arrays and given values of a schema.
#include <algorithm>
#include <set>

#include "sampling/grammar/pattern.h"
#include "sampling/grammar/schema.h"

namespace colibri::sampling::grammar {
namespace {

bool is_true(const Json* value) { return value && value->is_bool() && value->as_bool(); }
bool is_false(const Json* value) { return value && value->is_bool() && !value->as_bool(); }

std::string index_text(size_t i) { return "[" + std::to_string(i) + "]"; }

}  // namespace

Result<State> SchemaCompiler::any_or(const Json* schema, const Place& place, State from) {
  return schema ? value(*schema, place, from) : Result<State>(b_.call(from, rules_.value()));
}

// ---- objects -------------------------------------------------------------------------------------------------------

// Named properties in their order, then those that are only required; a schema that names properties and does not say
// what holds for others allows no others.
Result<SchemaCompiler::Properties> SchemaCompiler::properties(const Json& schema, const Place& place) {
  Properties out;
  const Json* others = schema.find("additionalProperties");
  const Json* named = schema.find("properties");
  const Json* required = schema.find("required");
  const Json no_names(Json::Array{});
  if (!required) required = &no_names;
  if (named && !named->is_object()) return schema_error(place.text("properties"), "is no object");
  if (!required->is_array()) return schema_error(place.text("required"), "is no list");
  if (others && !others->is_bool() && !others->is_object())
    return schema_error(place.text("additionalProperties"), "is no schema");
  out.allows_others = others ? !is_false(others) : !named;
  if (others && others->is_object()) out.others = others;
  std::set<std::string_view> needed;
  for (const Json& name : required->as_array()) {
    if (!name.is_string()) return schema_error(place.text("required"), "holds what is no string");
    needed.insert(name.as_string());
  }
  if (named)
    for (const auto& [name, value] : named->as_object()) out.named.push_back({name, &value, needed.erase(name) > 0});
  for (const Json& name : required->as_array()) {
    if (needed.erase(name.as_string()) == 0) continue;
    if (is_false(others))
      return schema_error(place.text("required"), "names \"" + name.as_string() + "\", which is not allowed");
    out.named.push_back({name.as_string(), out.others, true});
  }
  return out;
}

Result<State> SchemaCompiler::object(const Json& schema, const Place& place, State from) {
  COLIBRI_ASSIGN(const Properties all, properties(schema, place));
  COLIBRI_ASSIGN(const int64_t min, count_member(schema, "minProperties", 0, place.text("minProperties")));
  COLIBRI_ASSIGN(const int64_t max, count_member(schema, "maxProperties", -1, place.text("maxProperties")));
  const auto n_required = std::count_if(all.named.begin(), all.named.end(), [](const auto& p) { return p.required; });
  if (min > n_required)
    return schema_error(place.text("minProperties"), "above the number of required properties is not supported");
  if (max >= 0 && (all.allows_others || max < static_cast<int64_t>(all.named.size())))
    return schema_error(place.text("maxProperties"), "below the number of possible properties is not supported");
  if (all.named.empty() && all.allows_others && !all.others) return b_.call(from, rules_.object());
  const State start = b_.state();
  COLIBRI_ASSIGN(const State end, add_properties(all, place, b_.text(start, "{")));
  b_.accept(end);
  return b_.call(from, b_.rule(start, true));
}

// For each property there is a state where it or a later one must come (`next`), and one behind its value, where a
// comma or the end comes.
Result<State> SchemaCompiler::add_properties(const Properties& all, const Place& place, State open) {
  const size_t n = all.named.size();
  const Place inside{&place, "properties"};
  const State end = b_.state();
  State next = b_.call(open, rules_.blank());
  std::vector<bool> rest_optional(n + 1, true);
  for (size_t i = n; i-- > 0;) rest_optional[i] = rest_optional[i + 1] && !all.named[i].required;
  if (rest_optional[0]) b_.bytes(open, '}', '}', end);
  const auto continue_at = [&](State behind, size_t i, State key) {
    b_.call(b_.text(behind, ","), rules_.blank(), key);
    if (rest_optional[i]) b_.bytes(rules_.blank(behind), '}', '}', end);
  };
  for (size_t i = 0; i < n && !b_.full(); ++i) {
    const Property& property = all.named[i];
    const State colon = b_.text(rules_.literal_string(next, property.name), ":");
    COLIBRI_ASSIGN(const State behind, any_or(property.schema, Place{&inside, property.name}, rules_.blank(colon)));
    const State following = b_.state();
    if (!property.required) b_.empty(next, following);
    continue_at(behind, i + 1, following);
    next = following;
  }
  if (all.allows_others) {
    std::vector<std::string_view> names;
    for (const Property& property : all.named) names.push_back(property.name);
    const State key = names.empty() ? b_.call(next, rules_.string()) : add_string(b_, all_except(names), next);
    COLIBRI_ASSIGN(const State done,
                   any_or(all.others, Place{&place, "additionalProperties"}, rules_.blank(b_.text(key, ":"))));
    continue_at(done, n, next);
  }
  return end;
}

// ---- arrays --------------------------------------------------------------------------------------------------------

Result<State> SchemaCompiler::array(const Json& schema, const Place& place, State from) {
  const Json* unique = schema.find("uniqueItems");
  if (unique && !is_false(unique)) return schema_error(place.text("uniqueItems"), "is not supported");
  const State start = b_.state();
  COLIBRI_ASSIGN(const State end, add_items(schema, place, b_.text(start, "[")));
  b_.accept(end);
  return b_.call(from, b_.rule(start, true));
}

// Items with schemas of their own one by one, then a counted loop of the others.
Result<State> SchemaCompiler::add_items(const Json& schema, const Place& place, State open) {
  COLIBRI_ASSIGN(const int64_t min, count_member(schema, "minItems", 0, place.text("minItems")));
  COLIBRI_ASSIGN(const int64_t max, count_member(schema, "maxItems", -1, place.text("maxItems")));
  if (min > kUnlimited || max > kUnlimited) return schema_error(place.text("maxItems"), "is too large");
  if (max >= 0 && max < min) return schema_error(place.text("maxItems"), "is below minItems");
  const Json* items = schema.find("items");
  const Json* first = schema.find("prefixItems");
  const std::string_view first_key = first ? "prefixItems" : "items";
  if (!first && items && items->is_array()) first = std::exchange(items, nullptr);  // as drafts before 2020 had it
  if (first && !first->is_array()) return schema_error(place.text(first_key), "is no list of schemas");
  const auto n_first = static_cast<int64_t>(first ? first->as_array().size() : 0);
  // Behind prefixItems nothing is added that nobody asked for.
  const bool more = !is_false(items) && (items || !first || min > n_first) && (max < 0 || max > n_first);
  if (!more && min > n_first) return schema_error(place.text("minItems"), "is more than there may be");

  const State end = b_.state();
  const Place list{&place, first_key};
  State before = open;  // "[" or a value
  for (int64_t i = 0; i < n_first && (max < 0 || i < max) && !b_.full(); ++i) {
    if (i >= min) b_.bytes(i == 0 ? before : rules_.blank(before), ']', ']', end);
    const State item = rules_.blank(i == 0 ? before : b_.text(before, ","));
    const std::string index = index_text(static_cast<size_t>(i));
    COLIBRI_ASSIGN(before, value(first->as_array()[static_cast<size_t>(i)], Place{&list, index}, item));
  }
  const bool none_yet = n_first == 0 || max == 0;
  if (n_first >= min || !more) b_.bytes(none_yet ? before : rules_.blank(before), ']', ']', end);
  if (!more) return end;

  const int32_t bounds = b_.bounds(std::max<int64_t>(min - n_first, 0), max < 0 ? -1 : max - n_first);
  const State round = b_.state(), item = b_.state(), behind = b_.state(), comma = b_.state(), close = b_.state();
  b_.count(before, bounds, round);
  b_.call(none_yet ? round : b_.text(round, ","), rules_.blank(), item);
  COLIBRI_ASSIGN(const State done, any_or(is_true(items) ? nullptr : items, Place{&place, "items"}, item));
  b_.empty(done, behind);
  b_.count(behind, bounds, comma);
  b_.call(b_.text(comma, ","), rules_.blank(), item);
  b_.leave(behind, bounds, close);
  b_.bytes(rules_.blank(close), ']', ']', end);
  return end;
}

// ---- given values --------------------------------------------------------------------------------------------------

// A value of enum or const, with blank space where JSON has it.
Result<State> SchemaCompiler::literal(const Json& value, const Place& place, State from) {
  if (value.is_string()) return rules_.literal_string(from, value.as_string());
  if (value.is_double() && value.dump().front() == '{')  // infinities and NaN
    return schema_error(place.text(), "has a value that JSON has no number for");
  if (!value.is_array() && !value.is_object()) return b_.text(from, value.dump());
  const State start = b_.state(), end = b_.state();
  const bool is_array = value.is_array();
  const size_t n = is_array ? value.as_array().size() : value.as_object().size();
  State at = b_.text(start, is_array ? "[" : "{");
  for (size_t i = 0; i < n && !b_.full(); ++i) {
    at = rules_.blank(i == 0 ? at : b_.text(at, ","));
    if (!is_array) at = rules_.blank(b_.text(rules_.literal_string(at, value.as_object()[i].first), ":"));
    COLIBRI_ASSIGN(at, literal(is_array ? value.as_array()[i] : value.as_object()[i].second, place, at));
  }
  const uint8_t bracket = is_array ? ']' : '}';
  b_.bytes(n == 0 ? at : rules_.blank(at), bracket, bracket, end);
  b_.accept(end);
  return b_.call(from, b_.rule(start, true));
}

}  // namespace colibri::sampling::grammar

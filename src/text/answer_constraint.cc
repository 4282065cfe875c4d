#include "text/answer_constraint.h"

#include <algorithm>

#include "text/answers/json_scanner.h"
#include "text/answers/pattern.h"
#include "text/answers/value_types.h"

namespace colibri::text {
namespace {

constexpr int kMaxCalls = 32;
constexpr int kMaxNumberedCalls = 8;  // where each call is written with its number
constexpr size_t kMaxFreeOrder = 32;  // parameters none of which is required, in notations with commas
constexpr std::string_view kGemmaQuote = "<|\"|>";

// --- the words of the language ---

Json object(const char* key, Json value) { return Json::Object{{key, std::move(value)}}; }
Json literal(std::string_view text) { return object("literal", text); }
Json until(std::string_view text) { return object("until", text); }
Json optional(Json what) { return object("optional", std::move(what)); }

// Nested sequences become one, neighbouring literals too, and empty ones nothing.
void append(Json::Array& out, const Json& item) {
  if (const Json* inner = item.find("sequence")) {
    for (const Json& one : inner->as_array()) append(out, one);
    return;
  }
  const Json* text = item.find("literal");
  if (text != nullptr && text->as_string().empty()) return;
  const Json* before = out.empty() ? nullptr : out.back().find("literal");
  if (text != nullptr && before != nullptr) {
    out.back() = literal(before->as_string() + text->as_string());
  } else {
    out.push_back(item);
  }
}

Json sequence(const Json::Array& items) {
  Json::Array list;
  for (const Json& item : items) append(list, item);
  return list.size() == 1 ? list.front() : object("sequence", std::move(list));
}

Json choice(Json::Array items) { return items.size() == 1 ? items.front() : object("choice", std::move(items)); }

// --- one tool call ---

std::string written_parts(std::string_view parts, const Written& names) {
  std::string text;
  while (!parts.empty()) text += write(next_part(parts), names);
  return text;
}

// A part of a tool's schema, with the definitions that it may refer to.
Json schema_of(const Json& part, const Json& whole) {
  Json schema = part.is_object() ? part : Json(Json::Object{});
  for (const char* key : {"$defs", "definitions"})
    if (const Json* definitions = whole.find_value(key); definitions != nullptr && schema.find(key) == nullptr)
      schema.set(key, Json(*definitions));
  return object("schema", std::move(schema));
}

Json arguments_object(const Json& parameters) {
  if (!parameters.is_object() || parameters.as_object().empty()) return object("json_object", true);
  Json schema = parameters;
  if (schema.find_value("type") == nullptr) schema.set("type", "object");
  return object("schema", std::move(schema));
}

struct Parameter {
  std::string name;
  const Json* schema;
  bool required;
  ValueTypes types;
};

bool is_required(const Json& parameters, const std::string& name) {
  const Json* required = parameters.find_value("required");
  if (required == nullptr || !required->is_array()) return false;
  return std::find(required->as_array().begin(), required->as_array().end(), Json(name)) != required->as_array().end();
}

// The required ones first.
std::vector<Parameter> parameters_of(const Json& parameters) {
  std::vector<Parameter> list;
  const Json* properties = parameters.find_value("properties");
  if (properties == nullptr || !properties->is_object()) return list;
  for (const auto& [name, schema] : properties->as_object())
    list.push_back({name, &schema, is_required(parameters, name), types_of_parameter(&parameters, name)});
  std::stable_partition(list.begin(), list.end(), [](const Parameter& p) { return p.required; });
  return list;
}

// A text as it is, up to and with what ends it; one of an enumeration where the schema has one.
Json raw_text(const Parameter& parameter, std::string_view end) {
  const Json* values = parameter.schema->find_value("enum");
  if (values == nullptr || !values->is_array() || values->as_array().empty()) return until(end);
  Json::Array texts;
  for (const Json& value : values->as_array())
    if (value.is_string()) texts.push_back(literal(value.as_string()));
  return texts.empty() ? until(end) : sequence({choice(std::move(texts)), literal(end)});
}

const char* type_name(unsigned types) {
  if ((types & ValueTypes::kString) != 0) return "string";
  if (types == ValueTypes::kNumber) return "number";
  if (types == ValueTypes::kBoolean) return "boolean";
  if (types == ValueTypes::kArray) return "array";
  return types == ValueTypes::kNull ? "null" : "object";
}

class CallWriter {
 public:
  CallWriter(const CallForm& form, const AnswerTool& tool, int index) : form_(form), tool_(tool) {
    names_.name = tool.name;
    names_.index = index;
    names_.json = form.json;
  }

  Result<Json> call() const {
    COLIBRI_ASSIGN(Json arguments, arguments_of());
    return sequence(
        {literal(write(form_.head, names_)), std::move(arguments), literal(written_parts(form_.tail, names_))});
  }

  Result<Json> arguments_of() const {
    switch (form_.style) {
      case CallStyle::kTagged:
        return tagged();
      case CallStyle::kPython:
      case CallStyle::kGemma:
        return listed();
      default:
        return arguments_object(tool_.parameters);
    }
  }

 private:
  Json tagged() const {
    Json::Array list;
    for (const Parameter& parameter : parameters_of(tool_.parameters)) {
      const Json written = tagged_parameter(parameter);
      list.push_back(parameter.required ? written : optional(written));
    }
    return sequence(list);
  }

  Json tagged_parameter(const Parameter& parameter) const {
    const bool text = parameter.types.string();
    Written names = names_;
    names.key = parameter.name;
    const bool says_string = form_.parameter_head.find("string=\"$T\"") != std::string_view::npos;
    names.type = says_string ? (text ? "true" : "false") : type_name(parameter.types.types);
    const std::string line_feed = form_.lines ? "\n" : "";
    const std::string end = line_feed + write(form_.parameter_tail, names);
    const Json head = literal(write(form_.parameter_head, names) + line_feed);
    if (text) return sequence({head, raw_text(parameter, end)});
    return sequence({head, schema_of(*parameter.schema, tool_.parameters), literal(end)});
  }

  // Parameters with commas between them.
  Result<Json> listed() const {
    const bool python = form_.style == CallStyle::kPython;
    std::vector<Json> written;
    size_t required = 0;
    for (const Parameter& parameter : parameters_of(tool_.parameters)) {
      const Json value = python ? python_value(parameter) : gemma_value(parameter);
      if (value.is_null() && parameter.required)
        return Error{ErrorCode::kUsage, "tool_choice: this model's form of calls (" + std::string(form_.name) +
                                            ") cannot be forced for a tool with a list or an object among its "
                                            "required parameters: \"" +
                                            parameter.name + "\" of \"" + tool_.name + "\""};
      if (value.is_null()) continue;
      written.push_back(sequence({literal(parameter.name + (python ? "=" : ":")), value}));
      required += parameter.required ? 1 : 0;
    }
    return sequence({in_commas(written, required, python ? ", " : ","), literal(python ? ")" : "}")});
  }

  static Json in_commas(const std::vector<Json>& items, size_t required, std::string_view comma) {
    const auto from = [&](size_t first) {
      Json::Array list{items[first]};
      for (size_t i = first + 1; i < items.size(); ++i) {
        const Json next = sequence({literal(comma), items[i]});
        list.push_back(i < required ? next : optional(next));
      }
      return sequence(list);
    };
    if (items.empty()) return sequence({});
    if (required > 0) return from(0);
    Json::Array ways;
    for (size_t first = 0; first < std::min(items.size(), kMaxFreeOrder); ++first) ways.push_back(from(first));
    return optional(choice(std::move(ways)));
  }

  Json python_value(const Parameter& parameter) const {
    if (parameter.types.types == ValueTypes::kBoolean) return choice({literal("True"), literal("False")});
    return schema_of(*parameter.schema, tool_.parameters);
  }

  Json gemma_value(const Parameter& parameter) const {
    if (parameter.types.string()) return sequence({literal(kGemmaQuote), raw_text(parameter, kGemmaQuote)});
    if ((parameter.types.types & (ValueTypes::kObject | ValueTypes::kArray)) != 0) return {};
    return schema_of(*parameter.schema, tool_.parameters);
  }

  const CallForm& form_;
  const AnswerTool& tool_;
  Written names_;
};

// --- the calls of an answer ---

Result<Json> any_call(const CallForm& form, const AnswerRequest& request, int index) {
  Json::Array calls;
  for (const AnswerTool& tool : request.tools) {
    COLIBRI_ASSIGN(Json call, CallWriter(form, tool, index).call());
    calls.push_back(std::move(call));
  }
  return choice(std::move(calls));
}

bool is_numbered(const CallForm& form) {
  const auto has = [&](const char* part) { return form.head.find(part) != std::string_view::npos; };
  return has("$F") || has("$I") || has("$#");
}

Result<Json> repeated_calls(const CallForm& form, const AnswerRequest& request) {
  const std::string separator = write(form.separator, {});
  if (is_numbered(form)) {
    Json more = sequence({});
    for (int index = request.parallel ? kMaxNumberedCalls - 1 : 0; index >= 0; --index) {
      COLIBRI_ASSIGN(const Json call, any_call(form, request, index));
      const Json rest = sequence({call, more});
      more = index == 0 ? rest : optional(sequence({literal(separator), rest}));
    }
    return more;
  }
  COLIBRI_ASSIGN(Json call, any_call(form, request, 0));
  if (!request.parallel) return call;
  Json out = object("repeat", std::move(call));
  out.set("min", 1).set("max", kMaxCalls);
  if (!separator.empty()) out.set("separator", separator);
  return out;
}

Result<Json> calls_of(const AnswerFormat& format, const AnswerRequest& request) {
  const CallForm& form = *format.calls.front();
  COLIBRI_ASSIGN(const Json calls, repeated_calls(form, request));
  return sequence({literal(write(form.section_open, {})), calls, literal(written_parts(form.section_close, {}))});
}

Json json_text(const AnswerRequest& request) {
  return request.schema.is_null() ? object("json_object", true) : object("schema", Json(request.schema));
}

// --- what goes before ---

Json before(const AnswerFormat& format, std::string_view prompt) {
  if (format.reasoning == nullptr || prompt_forbids_reasoning(format, prompt)) return sequence({});
  const Json rest = sequence({until(format.reasoning->close), optional(literal("\n\n"))});
  if (prompt_ends_in_reasoning(format, prompt)) return rest;
  return optional(sequence({literal(format.reasoning->open), rest}));
}

Json framed(const AnswerFormat& format, std::string_view prompt, const Json& text) {
  if (format.frame == nullptr) return text;
  const Json open = optional(literal(format.frame->open)), close = optional(literal(format.frame->close));
  const bool opened = without_blanks_around(prompt).ends_with(format.frame->open);
  return opened ? sequence({text, close}) : sequence({open, text, close});
}

// --- gpt-oss ---

Result<Json> harmony_constraint(const AnswerRequest& request) {
  Json::Array ways;
  if (!request.must_call())
    ways.push_back(sequence({literal("<|channel|>final"), optional(literal(" <|constrain|>json")),
                             literal("<|message|>"), json_text(request)}));
  if (request.may_call())
    for (const AnswerTool& tool : request.tools)
      ways.push_back(
          sequence({literal("<|channel|>commentary to=functions." + tool.name + " <|constrain|>json<|message|>"),
                    arguments_object(tool.parameters)}));
  const Json reasoning =
      optional(sequence({literal("<|channel|>analysis<|message|>"), until("<|end|>"), literal("<|start|>assistant")}));
  return sequence({reasoning, choice(std::move(ways))});
}

// --- special tokens ---

struct Piece {
  std::string_view text;
  bool special;
};

std::vector<Piece> pieces_of(std::string_view text, const std::vector<std::string>& specials) {
  std::vector<Piece> pieces;
  while (!text.empty()) {
    size_t at = text.size();
    std::string_view first;
    for (const std::string& special : specials)
      if (const size_t found = text.find(special); found < at) {
        at = found;
        first = special;
      }
    if (at > 0) pieces.push_back({text.substr(0, at), false});
    if (!first.empty()) pieces.push_back({text.substr(at, first.size()), true});
    text.remove_prefix(at + first.size());
  }
  return pieces;
}

// A special token is read as itself where it is a literal, or an end, of its own.
Json apart(const char* key, std::string_view text, const std::vector<std::string>& specials) {
  Json::Array list;
  for (const Piece& piece : pieces_of(text, specials))
    list.push_back(object(list.empty() ? key : "literal", piece.text));
  return list.size() == 1 ? list.front() : object("sequence", std::move(list));
}

Json with_specials_apart(const Json& node, const std::vector<std::string>& specials);

Json with_specials_apart(const char* key, const Json& value, const std::vector<std::string>& specials) {
  Json::Array list;
  if (!value.is_array()) return with_specials_apart(value, specials);
  for (const Json& item : value.as_array()) {
    Json put = with_specials_apart(item, specials);
    const Json* inner = std::string_view(key) == "sequence" ? put.find("sequence") : nullptr;
    if (inner == nullptr) {
      list.push_back(std::move(put));
    } else {
      list.insert(list.end(), inner->as_array().begin(), inner->as_array().end());
    }
  }
  return list;
}

Json with_specials_apart(const Json& node, const std::vector<std::string>& specials) {
  for (const char* key : {"literal", "until"})
    if (const Json* text = node.find(key)) return apart(key, text->as_string(), specials);
  Json out = node;
  for (const char* key : {"sequence", "choice", "optional", "repeat"})
    if (const Json* value = node.find(key)) out.set(key, with_specials_apart(key, *value, specials));
  return out;
}

Result<Json> constraint_of(const AnswerFormat& format, const AnswerRequest& request, std::string_view prompt) {
  if (format.harmony()) return harmony_constraint(request);
  if (request.must_call() && format.calls.empty())
    return Error{ErrorCode::kUsage, "tool_choice: this model's chat template has no form for tool calls; use auto"};
  Json::Array ways;
  if (request.may_call() && !format.calls.empty()) {
    const Result<Json> calls = calls_of(format, request);
    if (calls.ok()) ways.push_back(*calls);
    if (!calls.ok() && request.must_call()) return calls.error();
  }
  if (!request.must_call()) ways.push_back(framed(format, prompt, json_text(request)));
  return sequence({before(format, prompt), choice(std::move(ways))});
}

}  // namespace

Result<Json> answer_constraint(const AnswerFormat& format, const AnswerRequest& request, std::string_view prompt,
                               const std::function<bool(std::string_view)>& is_special) {
  if (!request.json && !request.must_call()) return Json();
  COLIBRI_ASSIGN(const Json constraint, constraint_of(format, request, prompt));
  std::vector<std::string> specials = markers_of(format);
  std::erase_if(specials, [&](const std::string& marker) { return !is_special || !is_special(marker); });
  return with_specials_apart(constraint, specials);
}

}  // namespace colibri::text

#include "answer_reader.h"

namespace colibri::server {
namespace {

std::string text_of(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

Delta call_delta(const json::object& call) {
  Delta delta;
  const bool begins = call.contains("name");
  delta.kind = begins ? Delta::Kind::kCallBegins : Delta::Kind::kCallArguments;
  const json::value* index = call.if_contains("index");
  if (index != nullptr && index->is_int64()) delta.call = static_cast<int>(index->get_int64());
  delta.id = text_of(call, "id");
  delta.name = text_of(call, "name");
  delta.text = text_of(call, "arguments");
  return delta;
}

}  // namespace

api::Outcome<std::vector<Delta>> parse_deltas(const std::string& text) {
  std::vector<Delta> deltas;
  if (text.empty() || text == "[]") return deltas;
  auto parsed = common::parse_json(text, "deltas");
  if (!parsed) return parsed.error();
  if (!parsed->is_array()) return api::Error{COLIBRI_FAILED, "deltas: no array"};
  for (const json::value& one : parsed->get_array()) {
    if (!one.is_object()) return api::Error{COLIBRI_FAILED, "deltas: no object"};
    const json::object& object = one.get_object();
    const json::value* call = object.if_contains("tool_call");
    if (call != nullptr && call->is_object()) {
      deltas.push_back(call_delta(call->get_object()));
      continue;
    }
    const bool reasoning = object.contains("reasoning");
    Delta delta;
    delta.kind = reasoning ? Delta::Kind::kReasoning : Delta::Kind::kContent;
    delta.text = text_of(object, reasoning ? "reasoning" : "content");
    if (!delta.text.empty()) deltas.push_back(std::move(delta));
  }
  return deltas;
}

api::Outcome<AnswerReader> AnswerReader::open(const api::TextView& text, std::string_view request_json,
                                              std::string_view prompt) {
  colibri_answer* handle = nullptr;
  colibri_error error{};
  const colibri_status status = colibri_answer_open(text.handle(), request_json.data(), request_json.size(),
                                                    prompt.data(), prompt.size(), &handle, &error);
  if (status != COLIBRI_OK) return api::Error{status, error.message};
  return AnswerReader(handle);
}

api::Outcome<api::TokenIds> AnswerReader::kept_special() const {
  colibri_ids ids{};
  colibri_error error{};
  const colibri_status status = colibri_answer_kept_special(handle_.get(), &ids, &error);
  api::TokenIds copy = api::detail::take(ids);
  if (status != COLIBRI_OK) return api::Error{status, error.message};
  return copy;
}

api::Outcome<std::string> AnswerReader::constraint() const {
  return api::detail::string_of(colibri_answer_constraint, static_cast<const colibri_answer*>(handle_.get()));
}

api::Outcome<std::vector<Delta>> AnswerReader::push(std::string_view text) {
  const auto json = api::detail::string_of(colibri_answer_push, handle_.get(), text.data(), text.size());
  if (!json) return json.error();
  return parse_deltas(*json);
}

api::Outcome<std::vector<Delta>> AnswerReader::finish() {
  const auto json = api::detail::string_of(colibri_answer_finish, handle_.get());
  if (!json) return json.error();
  return parse_deltas(*json);
}

}  // namespace colibri::server

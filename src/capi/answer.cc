// colibri_answer_*: how a chat model's answer is read, and what it must look like.
#include "text/answer.h"

#include <cstdlib>

#include "base/hash.h"
#include "capi/border.h"
#include "capi/handles.h"
#include "text/answer_constraint.h"
#include "text/answer_request.h"

using namespace colibri;

struct colibri_answer {
  const engine::TextModel* model;
  text::AnswerFormat format;
  Json constraint;  // null: free
  text::AnswerReader reader;
  bool finished = false;
};

namespace {

// Ids of calls follow from the request's "answer_id", else from the prompt.
std::string id_seed(const Json& request, std::string_view prompt) {
  const Json* id = request.find_value("answer_id");
  if (id != nullptr && id->is_string()) return id->as_string();
  Fnv1a hash;
  hash.add(prompt);
  return std::to_string(hash.value());
}

// -1: none, or an ordinary one.
TokenId special_token(const engine::TextModel& model, std::string_view marker) {
  const text::Tokenizer* tokenizer = model.tokenizer();
  const TokenId id = tokenizer != nullptr ? tokenizer->find(marker) : -1;
  return id >= 0 && tokenizer->is_special(id) ? id : -1;
}

Result<colibri_answer> open_answer(const engine::TextModel& model, std::string_view json, std::string_view prompt) {
  const Result<Json> request = parse_json(json);
  if (!request.ok()) return Error{ErrorCode::kUsage, "the request is no valid JSON: " + request.error().message};
  COLIBRI_ASSIGN(const text::AnswerRequest wanted, text::parse_answer_request(*request));
  text::AnswerFormat format = model.answer_format(wanted.may_call());
  COLIBRI_ASSIGN(Json constraint, text::answer_constraint(format, wanted, prompt, [&model](std::string_view marker) {
                   return special_token(model, marker) >= 0;
                 }));
  if (!wanted.may_call() && !format.harmony()) format.calls.clear();
  text::AnswerReader reader(format, wanted.options(id_seed(*request, prompt), std::string(prompt)));
  return colibri_answer{&model, std::move(format), std::move(constraint), std::move(reader)};
}

Status read(colibri_answer* answer, std::string_view text, bool final, colibri_string* out) {
  if (answer == nullptr || out == nullptr) return capi::missing_argument(out == nullptr ? "deltas" : "answer");
  if (answer->finished) return Error{ErrorCode::kUsage, "the answer was finished; open another one"};
  text::AnswerDeltas deltas;
  answer->reader.push(text, deltas);
  if (final) answer->reader.finish(deltas);
  answer->finished = final;
  return capi::export_string(text::to_json(deltas).dump(), out);
}

}  // namespace

extern "C" {

colibri_status colibri_answer_open(const colibri_text* text, const char* request_json, size_t size, const char* prompt,
                                   size_t prompt_size, colibri_answer** out, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (text == nullptr || text->model == nullptr) return capi::missing_argument("text");
    if (request_json == nullptr || (prompt == nullptr && prompt_size > 0) || out == nullptr)
      return capi::missing_argument("request_json, prompt or out");
    COLIBRI_ASSIGN(colibri_answer answer, open_answer(*text->model, {request_json, size}, {prompt, prompt_size}));
    *out = std::make_unique<colibri_answer>(std::move(answer)).release();
    return {};
  });
}

void colibri_answer_free(colibri_answer* answer) { delete answer; }

colibri_status colibri_answer_kept_special(const colibri_answer* answer, colibri_ids* out, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (answer == nullptr || out == nullptr) return capi::missing_argument(out == nullptr ? "out" : "answer");
    TokenIds ids;
    for (const std::string& marker : text::markers_of(answer->format))
      if (const TokenId id = special_token(*answer->model, marker); id >= 0) ids.push_back(id);
    return capi::export_ids(ids, out);
  });
}

colibri_status colibri_answer_constraint(const colibri_answer* answer, colibri_string* out, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (answer == nullptr || out == nullptr) return capi::missing_argument(out == nullptr ? "out" : "answer");
    return capi::export_string(answer->constraint.is_null() ? "" : answer->constraint.dump(), out);
  });
}

colibri_status colibri_answer_push(colibri_answer* answer, const char* utf8, size_t size, colibri_string* deltas,
                                   colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (utf8 == nullptr && size > 0) return capi::missing_argument("utf8");
    return read(answer, {utf8, size}, false, deltas);
  });
}

colibri_status colibri_answer_finish(colibri_answer* answer, colibri_string* deltas, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status { return read(answer, {}, true, deltas); });
}

}  // extern "C"

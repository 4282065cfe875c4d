#include <cstdlib>
#include <cstring>

#include "capi/border.h"
#include "capi/handles.h"

using namespace colibri;

namespace {

Result<const text::Tokenizer*> tokenizer_of(const colibri_text* text) {
  if (text == nullptr || text->model == nullptr) return capi::missing_argument("text");
  if (text->model->tokenizer() == nullptr)
    return Error{ErrorCode::kUsage, "no tokenizer: only a template file was opened"};
  return text->model->tokenizer();
}

}  // namespace

extern "C" {

colibri_status colibri_text_open(const char* path, const char* template_file, colibri_text** out,
                                 colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (out == nullptr) return capi::missing_argument("out");
    if (path == nullptr && template_file == nullptr) return capi::missing_argument("path");
    COLIBRI_ASSIGN(engine::TextModel model,
                   engine::TextModel::open(path != nullptr ? path : "", template_file != nullptr ? template_file : ""));
    auto text = std::make_unique<colibri_text>();
    text->owned = std::move(model);
    text->model = &*text->owned;
    *out = text.release();
    return {};
  });
}

void colibri_text_close(colibri_text* text) { delete text; }

colibri_status colibri_tokenize(const colibri_text* text, const char* utf8, size_t size, uint32_t flags,
                                colibri_ids* out, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (out == nullptr || (utf8 == nullptr && size > 0)) return capi::missing_argument(out == nullptr ? "out" : "utf8");
    COLIBRI_ASSIGN(const text::Tokenizer* tokenizer, tokenizer_of(text));
    const text::EncodeOptions options{(flags & COLIBRI_ADD_SPECIAL) != 0, (flags & COLIBRI_PARSE_SPECIAL) != 0};
    return capi::export_ids(tokenizer->encode({utf8, size}, options), out);
  });
}

colibri_status colibri_detokenize(const colibri_text* text, const int32_t* ids, size_t n, uint32_t flags,
                                  colibri_string* out, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (out == nullptr || (ids == nullptr && n > 0)) return capi::missing_argument(out == nullptr ? "out" : "ids");
    COLIBRI_ASSIGN(const text::Tokenizer* tokenizer, tokenizer_of(text));
    for (size_t i = 0; i < n; ++i)
      if (ids[i] < 0 || ids[i] >= tokenizer->vocab_size())
        return Error{ErrorCode::kUsage, "id " + std::to_string(i) + " is " + std::to_string(ids[i]) +
                                            ", the tokenizer has ids 0 to " +
                                            std::to_string(tokenizer->vocab_size() - 1)};
    return capi::export_string(tokenizer->decode(TokenIds(ids, ids + n), (flags & COLIBRI_SKIP_SPECIAL) != 0), out);
  });
}

colibri_status colibri_token_bytes(const colibri_text* text, int32_t id, colibri_string* out, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (out == nullptr) return capi::missing_argument("out");
    COLIBRI_ASSIGN(const text::Tokenizer* tokenizer, tokenizer_of(text));
    if (id < 0 || id >= tokenizer->vocab_size())
      return Error{ErrorCode::kUsage, "the token is " + std::to_string(id) + ", the tokenizer has ids 0 to " +
                                          std::to_string(tokenizer->vocab_size() - 1)};
    return capi::export_string(tokenizer->bytes(id), out);
  });
}

colibri_status colibri_apply_template(const colibri_text* text, const char* request_json, size_t size, const char* now,
                                      colibri_string* out, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (text == nullptr || request_json == nullptr || out == nullptr)
      return capi::missing_argument("text, request_json or out");
    auto request = parse_json({request_json, size});
    if (!request.ok()) return Error{ErrorCode::kUsage, "the request is no valid JSON: " + request.error().message};
    int64_t seconds = 0;
    if (now != nullptr) {
      COLIBRI_ASSIGN(seconds, engine::parse_iso_time(now));
    } else {
      seconds = engine::local_now_seconds();
    }
    COLIBRI_ASSIGN(const std::string rendered, text->model->apply_template(*request, seconds));
    return capi::export_string(rendered, out);
  });
}

}  // extern "C"

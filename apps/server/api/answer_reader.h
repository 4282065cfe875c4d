// AnswerReader: the text of one chat answer, cut anywhere, as deltas (colibri_answer_* of colibri.h).
//
// Belongs to one thread at a time. Borrows the engine's tokenizer.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "answer.h"
#include "colibri/colibri.hpp"

namespace colibri::server {

class AnswerReader {
 public:
  static api::Outcome<AnswerReader> open(const api::TextView& text, std::string_view request_json,
                                         std::string_view prompt);

  api::Outcome<api::TokenIds> kept_special() const;
  api::Outcome<std::string> constraint() const;
  api::Outcome<std::vector<Delta>> push(std::string_view text);
  api::Outcome<std::vector<Delta>> finish();

 private:
  struct Free {
    void operator()(colibri_answer* answer) const { colibri_answer_free(answer); }
  };
  explicit AnswerReader(colibri_answer* handle) : handle_(handle) {}
  std::unique_ptr<colibri_answer, Free> handle_;
};

/// The JSON array that colibri_answer_push gives.
api::Outcome<std::vector<Delta>> parse_deltas(const std::string& json);

}  // namespace colibri::server

// One request from submit to its last event, as run and chat need it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/failure.h"
#include "common/json.h"

namespace colibri::cli {

using namespace common;

struct Generation {
  TokenIds tokens;  ///< what was generated
  std::string text;
  std::string finish_reason;  ///< "stop", "length", "cancelled"
  json::object stats;
};

/// Gives the text to `show` piece by piece as it comes. A signal, or a failure of `show`, ends the generation; a
/// failure is the result, a signal is not: interrupted() tells. `model` is for the statistics. While a long prompt is
/// read, a terminal shows how far it is.
Outcome<Generation> generate(api::Engine& engine, const api::Request& request, const std::string& model,
                             const std::function<Status(std::string_view)>& show);

/// {"messages": [...], "add_generation_prompt": true} as apply_template wants it.
class Conversation {
 public:
  /// An empty system message counts as none.
  explicit Conversation(const std::string& system);
  void add(const std::string& role, const std::string& content);
  void remove_last() { messages_.pop_back(); }
  /// The prompt for the next answer. The template writes BOS itself, so none is added.
  Outcome<TokenIds> prompt(const api::TextView& text) const;

 private:
  json::array messages_;
};

}  // namespace colibri::cli

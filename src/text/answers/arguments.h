// ArgumentReader: the arguments of one tool call as the model writes them, in; JSON text, out, as early as is certain.
//
// One reader per call, of the kind that the call's form asks for. It takes from the front of the text what it is sure
// about and leaves the rest for the next time, so that the JSON does not depend on how the text was cut. Thread-safety:
// none; a reader belongs to one answer.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/answers/format.h"

namespace colibri::text {

class ArgumentReader {
 public:
  enum class State {
    kMore,  ///< the rest of the text decides with what follows it
    kDone,  ///< the arguments are whole; what follows is the call's tail
    kBad,   ///< the text does not go on as arguments; what was given so far stays
  };
  struct Progress {
    State state;
    size_t taken;  ///< bytes of the text
  };

  ArgumentReader() = default;
  ArgumentReader(const ArgumentReader&) = delete;
  ArgumentReader& operator=(const ArgumentReader&) = delete;
  virtual ~ArgumentReader() = default;

  virtual Progress read(std::string_view text, std::string& json) = 0;
  /// The end of the answer, with what was not taken: the part of a value that was still held back. Closes nothing.
  virtual void finish(std::string_view text, std::string& json) = 0;
};

/// `schema`: the tool's parameters, null when unknown; must outlive the reader.
std::unique_ptr<ArgumentReader> make_argument_reader(const CallForm& form, const Json* schema);

}  // namespace colibri::text

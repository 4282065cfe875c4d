#include "text/answers/arguments.h"

#include "text/answers/json_arguments.h"
#include "text/answers/loose_arguments.h"
#include "text/answers/tagged_arguments.h"

namespace colibri::text {

std::unique_ptr<ArgumentReader> make_argument_reader(const CallForm& form, const Json* schema) {
  switch (form.style) {
    case CallStyle::kTagged:
      return std::make_unique<TaggedArguments>(form, schema);
    case CallStyle::kPython:
    case CallStyle::kGemma:
      return std::make_unique<LooseArguments>(form.style);
    default:
      return std::make_unique<JsonArguments>();
  }
}

}  // namespace colibri::text

// MessageForm: what a chat template wants of the messages, and messages of OpenAI's form put that way.
//
// Clients send histories in OpenAI's form: arguments of tool calls as a JSON text, roles that a model does not know,
// content in parts. Some templates need the arguments as an object, some as text, and so on; a template is asked by
// rendering a small conversation in each way. What a template understands already is not touched. Thread-safety: plain
// values and free functions.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "text/chat_template.h"

namespace colibri::text {

struct MessageForm {
  bool calls = false;              ///< renders tool calls; else they are left as they came
  bool arguments_as_text = false;  ///< wants the arguments as JSON text, not as an object
  bool null_content = false;       ///< wants null for the content of a message with calls and no text, not ""
  bool parts = true;               ///< reads content in parts
  bool developer = true;           ///< knows the role developer; else it becomes system
  bool nine_letter_ids = false;    ///< refuses ids of calls that are not nine letters and digits
  std::string reasoning_key = "reasoning_content";  ///< under which it reads the reasoning
};

/// Renders small conversations with the template; takes some milliseconds at most.
MessageForm message_form_of(const ChatTemplate& chat_template, std::string_view source);

/// `messages`: a list as clients send it; whatever is no such list comes back as it is.
Json messages_for_template(const Json& messages, const MessageForm& form);

}  // namespace colibri::text

// The messages of a chat: from what clients send to what templates take.
//
// Pure. The form stays OpenAI's (colibri_apply_template puts it as the model's template wants it), but only what is
// known remains: null contents become "", parts are texts, members that no template knows are left out.
#pragma once

#include <optional>

#include "fields.h"

namespace colibri::server {

constexpr size_t kMaxMessages = 100000;

/// `path` names the array in errors: "messages".
std::optional<ApiError> normalize_messages(const json::array& messages, const std::string& path, json::array& out);

/// The text of a content: a string, null, or a list of {"type": "text", "text"} parts. Images and the like are refused.
void read_content(Fields& fields, std::string_view name, std::string& out);

/// [{"type": "function", "function": {"name", "description", "parameters"}}]
std::optional<ApiError> check_tools(const json::array& tools);
/// REQUIRES: check_tools found nothing wrong.
bool has_tool(const json::array& tools, std::string_view name);

}  // namespace colibri::server

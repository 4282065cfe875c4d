// A chat template, rendered with conversations that reach most branches of published ones.
#include "fuzz.h"
#include "text/chat_template.h"

namespace {

constexpr const char* kContext = R"({
  "messages": [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 2+2? <|im_end|>"},
    {"role": "assistant", "content": "4", "reasoning_content": "Simple sum.", "tool_calls": [
      {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": [1.5, null, "x"]}}}]},
    {"role": "tool", "tool_call_id": "call_1", "name": "add", "content": "{\"sum\": 4}"},
    {"role": "user", "content": [{"type": "text", "text": "And \u00e9?"}, {"type": "image"}]}],
  "tools": [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters":
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": ["array", "null"]}}, "required": ["a"]}}}],
  "add_generation_prompt": true, "enable_thinking": false, "documents": null, "bos_token": "<s>", "eos_token": "</s>"})";

colibri::Json context(bool with_tools) {
  colibri::Json json = *colibri::parse_json(kContext);
  if (!with_tools) json.set("tools", nullptr).set("add_generation_prompt", false).set("enable_thinking", true);
  return json;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const colibri::Json contexts[] = {context(true), context(false)};
  const auto chat = colibri::text::ChatTemplate::parse(colibri::fuzz::text_of(data, size), "template");
  if (!chat.ok()) return 0;
  colibri::text::RenderOptions options;
  options.now_seconds = 1770091506;
  options.max_steps = 50'000;  // small bounds, so that inputs which reach them do not use up the time
  options.max_output_bytes = 1 << 20;
  options.max_value_bytes = 8 << 20;
  for (const colibri::Json& json : contexts) {
    const auto first = chat->render(json, options), second = chat->render(json, options);
    COLIBRI_CHECK(first.ok() == second.ok());  // nothing is kept between renderings
    if (!first.ok()) continue;
    COLIBRI_CHECK(*first == *second);
    COLIBRI_CHECK(static_cast<int64_t>(first->size()) <= options.max_output_bytes);
  }
  return 0;
}

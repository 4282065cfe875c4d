// Answers in any format: the same whatever the cuts, and arguments of closed calls are JSON. Input: a byte that chooses
// the format, one of options, a line of bytes that give the sizes of the pieces, the text.
#include <vector>

#include "fuzz.h"
#include "text/answer.h"
#include "text/answers/json_scanner.h"

namespace {

using colibri::text::AnswerDelta;
using colibri::text::AnswerDeltas;
using colibri::text::AnswerFormat;
using colibri::text::AnswerOptions;

constexpr const char* kForms[] = {"hermes",
                                  "qwen_xml",
                                  "seed",
                                  "harmony",
                                  "deepseek_v3",
                                  "deepseek_v31",
                                  "dsml_v32",
                                  "dsml_v4",
                                  "glm",
                                  "glm_47",
                                  "hy3",
                                  "gemma",
                                  "mistral_list",
                                  "mistral",
                                  "mistral_id",
                                  "kimi_k2",
                                  "kimi_k3",
                                  "minimax_m2",
                                  "lfm2",
                                  "granite_list",
                                  "toolcall_list",
                                  "cohere",
                                  "apertus",
                                  "gigachat",
                                  "solar",
                                  "tool_calls_list",
                                  "tool_calls_lines",
                                  "functools_list",
                                  "function",
                                  "function_param",
                                  "llama_tag",
                                  "llama_start",
                                  "llama_json",
                                  "llama_python",
                                  "python"};
constexpr const char* kReasoning[] = {"think", "THINK", "thought", "kimi_k3"};

constexpr const char* kSchema = R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"},
  "c": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "d": {"type": "array"}}})";

AnswerFormat format_of(uint8_t choice, uint8_t options) {
  AnswerFormat format;
  format.calls = {colibri::text::find_call_form(kForms[choice % std::size(kForms)])};
  if ((options & 1) != 0) format.reasoning = colibri::text::find_reasoning_form(kReasoning[(options >> 4) % 4]);
  return format;
}

AnswerOptions options_of(uint8_t options, const AnswerFormat& format) {
  AnswerOptions out;
  out.tools = {{"f", *colibri::parse_json(kSchema)}, {"g", {}}};
  out.calls = (options & 2) == 0;
  if ((options & 4) != 0) out.max_calls = 1;
  if ((options & 8) != 0 && format.reasoning != nullptr) out.prompt = format.reasoning->open;
  return out;
}

AnswerDeltas joined(const AnswerDeltas& deltas) {
  AnswerDeltas out;
  for (const AnswerDelta& delta : deltas) {
    if (!out.empty() && out.back().kind == delta.kind && delta.kind != AnswerDelta::Kind::kCall) {
      out.back().text += delta.text;
    } else {
      out.push_back(delta);
    }
  }
  return out;
}

struct Reading {
  AnswerDeltas deltas;
  int closed;
};

Reading read(const AnswerFormat& format, const AnswerOptions& options, std::string_view text, std::string_view sizes) {
  colibri::text::AnswerReader reader(format, options);
  AnswerDeltas deltas;
  for (size_t at = 0, i = 0; at < text.size(); ++i) {
    const size_t size = sizes.empty() ? text.size() : 1 + static_cast<unsigned char>(sizes[i % sizes.size()]) % 32;
    reader.push(text.substr(at, size), deltas);
    at += std::min(size, text.size() - at);
  }
  reader.finish(deltas);
  return {joined(deltas), reader.calls_closed()};
}

// Calls may be left open where they break off, so no more are closed than begun; the last of each is whole.
void check_arguments(const Reading& reading) {
  int begun = 0, whole = 0;
  for (const AnswerDelta& delta : reading.deltas) {
    begun += delta.kind == AnswerDelta::Kind::kCall ? 1 : 0;
    if (delta.kind == AnswerDelta::Kind::kArguments)
      whole += delta.text.starts_with('{') && colibri::text::is_json(delta.text) ? 1 : 0;
  }
  COLIBRI_CHECK(reading.closed <= begun);
  COLIBRI_CHECK(reading.closed <= whole);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const AnswerFormat format = format_of(data[0], data[1]);
  const AnswerOptions options = options_of(data[1], format);
  const auto [sizes, text] = colibri::fuzz::cut(colibri::fuzz::text_of(data + 2, size - 2), '\n');
  const Reading whole = read(format, options, text, {});
  check_arguments(whole);
  COLIBRI_CHECK(read(format, options, text, sizes).deltas == whole.deltas);
  COLIBRI_CHECK(read(format, options, text, std::string_view("\0", 1)).deltas == whole.deltas);
  return 0;
}

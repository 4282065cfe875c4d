#include "text/answer.h"

#include <algorithm>

#include "text/answers/delta_sink.h"
#include "text/answers/json_scanner.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

constexpr size_t kPromptEnd = 4096;  // of the prompt, what matters
constexpr size_t kPiece = 4096;      // readers search in all that they have, so they get no more at once

// A piece from the front of `text`, of whole characters.
std::string_view take_piece(std::string_view& text) {
  size_t size = std::min(kPiece, text.size());
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
  const std::string_view piece = text.substr(0, size);
  text.remove_prefix(size);
  return piece;
}

AnswerOptions with_end_of_prompt(AnswerOptions options) {
  if (options.prompt.size() > kPromptEnd) options.prompt.erase(0, options.prompt.size() - kPromptEnd);
  return options;
}

Json to_json(const AnswerDelta& delta) {
  Json out;
  if (delta.kind == AnswerDelta::Kind::kReasoning) return out.set("reasoning", delta.text);
  if (delta.kind == AnswerDelta::Kind::kContent) return out.set("content", delta.text);
  Json call;
  call.set("index", delta.index);
  if (delta.kind == AnswerDelta::Kind::kCall) call.set("id", delta.id).set("name", delta.name);
  call.set("arguments", delta.text);
  return out.set("tool_call", std::move(call));
}

}  // namespace

struct AnswerReader::State {
  State(const AnswerFormat& wanted, AnswerOptions wanted_options)
      : format(wanted),
        options(with_end_of_prompt(std::move(wanted_options))),
        sink(options),
        reader(format.harmony() ? make_harmony_reader(sink) : make_markup_reader(format, sink)) {}

  void read(AnswerDeltas& deltas, bool final) {
    sink.write_to(deltas);
    for (std::string_view rest = text; !rest.empty();) reader->read(take_piece(rest), false);
    if (final) reader->read({}, true);
    text.clear();
  }

  AnswerFormat format;
  AnswerOptions options;
  DeltaSink sink;
  std::unique_ptr<FormatReader> reader;
  Utf8Stream characters;
  std::string text;
};

AnswerReader::AnswerReader(const AnswerFormat& format, AnswerOptions options)
    : state_(std::make_unique<State>(format, std::move(options))) {}
AnswerReader::AnswerReader(AnswerReader&&) noexcept = default;
AnswerReader& AnswerReader::operator=(AnswerReader&&) noexcept = default;
AnswerReader::~AnswerReader() = default;

void AnswerReader::push(std::string_view text, AnswerDeltas& deltas) {
  state_->characters.push(text, state_->text);
  state_->read(deltas, false);
}

void AnswerReader::finish(AnswerDeltas& deltas) {
  state_->characters.finish(state_->text);
  state_->read(deltas, true);
}

int AnswerReader::calls_closed() const { return state_->sink.closed(); }

Json to_json(const AnswerDeltas& deltas) {
  Json::Array list;
  list.reserve(deltas.size());
  for (const AnswerDelta& delta : deltas) list.push_back(to_json(delta));
  return list;
}

bool prompt_ends_in_reasoning(const AnswerFormat& format, std::string_view prompt) {
  return format.reasoning != nullptr && without_blanks_around(prompt).ends_with(format.reasoning->open);
}

bool prompt_forbids_reasoning(const AnswerFormat& format, std::string_view prompt) {
  if (format.reasoning == nullptr) return !format.harmony();
  prompt = without_blanks_around(prompt);
  return prompt.ends_with(format.reasoning->close) || (format.frame != nullptr && prompt.ends_with(format.frame->open));
}

}  // namespace colibri::text

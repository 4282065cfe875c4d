// colibri tokenize, detokenize, template: text in, text out; no weights.
//
// With --jsonl each line of input is one JSON value and gives one line of output, so that texts with line feeds
// survive.

#include <algorithm>
#include <charconv>
#include <functional>

#include "commands.h"
#include "common/input.h"
#include "common/json.h"
#include "session.h"

namespace colibri::cli {
namespace {

using LineFunction = std::function<Outcome<std::string>(const std::string& line, const std::string& where)>;

Status each_line(const LineFunction& convert, StandardOutput& out) {
  LineReader reader;
  for (;;) {
    const auto line = reader.next();
    if (!line) return line.error();
    if (!*line) return {};
    const auto answer = convert(**line, reader.where());
    if (!answer) return answer.error();
    if (Status written = out.write(*answer + "\n"); !written) return written;
    if (!reader.would_read()) continue;
    if (Status flushed = out.flush(); !flushed) return flushed;
  }
}

std::string joined(const TokenIds& ids, std::string_view separator) {
  std::string text;
  for (const int32_t id : ids) {
    if (!text.empty()) text += separator;
    text += std::to_string(id);
  }
  return text;
}

std::string json_string(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return quoted;
}

// Ids separated by blanks, commas or brackets: what tokenize prints, with or without --jsonl.
Outcome<TokenIds> parse_ids(std::string_view text) {
  static constexpr std::string_view kBetween = " \t\r\n,[]";
  TokenIds ids;
  size_t begin = 0;
  while ((begin = text.find_first_not_of(kBetween, begin)) != text.npos) {
    const size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    int32_t id = 0;
    const auto [stop, code] = std::from_chars(text.data() + begin, text.data() + end, id);
    if (code != std::errc() || stop != text.data() + end) {
      return usage_error("standard input: \"" + std::string(text.substr(begin, std::min<size_t>(end - begin, 40))) +
                         "\" is no token id (number " + std::to_string(ids.size() + 1) + ")");
    }
    ids.push_back(id);
    begin = end;
  }
  return ids;
}

Outcome<std::string> tokenize_line(const api::TextView& text, uint32_t flags, const std::string& line,
                                   const std::string& where) {
  const auto value = parse_json(line, where);
  if (!value) return value.error();
  if (!value->is_string()) return usage_error(where + ": must be a JSON string");
  const auto& string = value->get_string();
  const auto ids = text.tokenize({string.data(), string.size()}, flags);
  if (!ids) return with_context(ids.error(), where);
  return "[" + joined(*ids, ", ") + "]";
}

Outcome<std::string> detokenize_line(const api::TextView& text, const std::string& line, const std::string& where) {
  const auto value = parse_json(line, where);
  if (!value) return value.error();
  if (!value->is_array()) return usage_error(where + ": must be a JSON array of token ids");
  size_t bad = 0;
  const auto ids = token_ids(value->get_array(), &bad);
  if (!ids) return usage_error(where + ": element " + std::to_string(bad) + " is no token id");
  const auto decoded = text.detokenize(*ids);
  if (!decoded) return with_context(decoded.error(), where);
  return json_string(*decoded);
}

// A conversation that the template refuses gives {"error": "..."} in its line, and the others are still rendered; the
// first refusal is what the command ends with.
Status template_lines(const api::TextView& text, const std::string& now, StandardOutput& out) {
  Status first_refusal;
  const auto render = [&](const std::string& line, const std::string& where) -> Outcome<std::string> {
    const auto rendered = text.apply_template(line, now);
    if (rendered) return json_string(*rendered);
    if (first_refusal.ok()) first_refusal = with_context(rendered.error(), where);
    return "{\"error\": " + json_string(rendered.error().message) + "}";
  };
  const Status done = each_line(render, out);
  return done.ok() ? first_refusal : done;
}

Outcome<api::Text> open_text(const TextArgs& args) {
  if (args.template_file.empty()) {
    if (Status named = require_model(args.model); !named) return named.error();
  }
  return api::Text::open(args.model, args.template_file);
}

}  // namespace

Status tokenize_command(const TextArgs& args, StandardOutput& out) {
  const auto text = open_text(args);
  if (!text) return text.error();
  const uint32_t flags = tokenize_flags(args.special);
  if (args.jsonl) {
    return each_line(
        [&](const auto& line, const auto& where) { return tokenize_line(text->view(), flags, line, where); }, out);
  }
  const auto input = read_standard_input();
  if (!input) return input.error();
  const auto ids = text->view().tokenize(*input, flags);
  if (!ids) return ids.error();
  return out.write(joined(*ids, " ") + "\n");
}

Status detokenize_command(const TextArgs& args, StandardOutput& out) {
  const auto text = open_text(args);
  if (!text) return text.error();
  if (args.jsonl) {
    return each_line([&](const auto& line, const auto& where) { return detokenize_line(text->view(), line, where); },
                     out);
  }
  const auto input = read_standard_input();
  if (!input) return input.error();
  const auto ids = parse_ids(*input);
  if (!ids) return ids.error();
  const auto decoded = text->view().detokenize(*ids);
  if (!decoded) return decoded.error();
  return out.write(*decoded);
}

Status template_command(const TextArgs& args, StandardOutput& out) {
  const auto text = open_text(args);
  if (!text) return text.error();
  if (args.jsonl) return template_lines(text->view(), args.now, out);
  const auto input = read_standard_input();
  if (!input) return input.error();
  const auto rendered = text->view().apply_template(*input, args.now);
  if (!rendered) return rendered.error();
  return out.write(*rendered);
}

}  // namespace colibri::cli

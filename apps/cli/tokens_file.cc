#include "tokens_file.h"

#include "common/input.h"
#include "common/json.h"

namespace colibri::cli {
namespace {

std::string prompt_name(const std::string& path, size_t index) { return path + ": prompt " + std::to_string(index); }

Outcome<TokenIds> parse_prompt(const json::value& value, const std::string& name) {
  if (!value.is_array()) return usage_error(name + ": must be an array of token ids");
  size_t bad = 0;
  auto ids = token_ids(value.get_array(), &bad);
  if (!ids) return usage_error(name + ": element " + std::to_string(bad) + " is no token id");
  if (ids->empty()) return usage_error(name + ": is empty; a prompt needs at least one token");
  return std::move(*ids);
}

bool is_flat(const json::array& array) { return array.empty() || !array.front().is_array(); }

}  // namespace

Outcome<std::vector<TokenIds>> read_tokens_file(const std::string& path, bool bare_array) {
  const auto text = read_file(path);
  if (!text) return text.error();
  const auto root = parse_json(*text, path);
  if (!root) return root.error();
  json::array list;
  if (bare_array && root->is_array()) {
    list = is_flat(root->get_array()) ? json::array{*root} : root->get_array();
  } else {
    const json::object* object = root->if_object();
    const json::value* prompts = object ? object->if_contains("prompts") : nullptr;
    if (!prompts || !prompts->is_array()) return usage_error(path + ": must be {\"prompts\": [[ids], ...]}");
    list = prompts->get_array();
  }
  if (list.empty()) return usage_error(path + ": \"prompts\" is empty; give at least one array of token ids");
  std::vector<TokenIds> result;
  for (size_t i = 0; i < list.size(); ++i) {
    auto ids = parse_prompt(list[i], prompt_name(path, i));
    if (!ids) return ids.error();
    result.push_back(std::move(*ids));
  }
  return result;
}

Status check_ids(const std::vector<TokenIds>& prompts, int32_t vocab_size, const std::string& path) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    for (size_t position = 0; position < prompts[i].size(); ++position) {
      const int32_t id = prompts[i][position];
      if (id >= 0 && id < vocab_size) continue;
      return usage_error(prompt_name(path, i) + ": token " + std::to_string(id) + " at position " +
                         std::to_string(position) + " is outside the vocabulary of " + std::to_string(vocab_size));
    }
  }
  return {};
}

}  // namespace colibri::cli

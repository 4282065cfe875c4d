#include <algorithm>
#include <filesystem>

#include "args.h"

namespace colibri::cli {
namespace {

using Words = std::vector<std::string>;

// Takes `flag` out of the words; false when it is not there. What follows "--" or is an option's value is not looked at
// more closely: nobody's prompt is "--validate".
bool take_flag(Words& words, const std::string& flag) {
  const auto end = std::find(words.begin(), words.end(), "--");
  const auto found = std::find(words.begin(), end, flag);
  if (found == end) return false;
  words.erase(found);
  return true;
}

// Takes "--test WHAT" or "--test=WHAT" out of the words.
std::optional<std::string> take_option(Words& words, const std::string& flag) {
  for (auto word = words.begin(); word != words.end() && *word != "--"; ++word) {
    if (word->starts_with(flag + "=")) {
      const std::string value = word->substr(flag.size() + 1);
      words.erase(word);
      return value;
    }
    if (*word == flag && word + 1 != words.end()) {
      const std::string value = word[1];
      words.erase(word, word + 2);
      return value;
    }
  }
  return std::nullopt;
}

Words with_command(const std::string& program, const Words& command, const Words& words) {
  Words result{program};
  result.insert(result.end(), command.begin(), command.end());
  result.insert(result.end(), words.begin(), words.end());
  return result;
}

bool asks_about_program(const Words& words) {
  static constexpr const char* kQuestions[] = {"-h", "--help", "--version", "help", "version"};
  return !words.empty() &&
         std::find(std::begin(kQuestions), std::end(kQuestions), words.front()) != std::end(kQuestions);
}

}  // namespace

std::vector<std::string> expand_aliases(std::vector<std::string> arguments) {
  const std::string program = arguments.empty() ? "colibri" : arguments.front();
  Words words(arguments.empty() ? arguments.begin() : arguments.begin() + 1, arguments.end());
  const bool starts_with_option = !words.empty() && words.front().starts_with("-");
  if (starts_with_option && take_flag(words, "--validate")) return with_command(program, {"validate"}, words);
  if (starts_with_option && take_flag(words, "--validate-tokenizer")) {
    return with_command(program, {"validate", "--tokenizer"}, words);
  }
  if (starts_with_option) {
    if (const auto what = take_option(words, "--test")) return with_command(program, {"test", *what}, words);
  }
  if (asks_about_program(words)) return with_command(program, {}, words);
  const std::string name = std::filesystem::path(program).filename().string();
  const bool with_option = words.empty() || words.front().starts_with("-");
  if (name == "colibri-server" && with_option) return with_command(program, {"serve"}, words);
  if (name == "colibri-cli" && with_option) return with_command(program, {"run"}, words);
  return with_command(program, {}, words);
}

}  // namespace colibri::cli

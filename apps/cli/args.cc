#include "args.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "common/nearest.h"
#include "common/settings.h"
#include "server/server_settings.h"

namespace colibri::cli {
namespace {

constexpr int32_t kMaxTokens = 1 << 30;
constexpr size_t kNameColumn = 32;
constexpr size_t kTextColumns = 84;
constexpr const char* kServerSettings =
    "Settings of the server (as flag, as variable COLIBRI_<KEY>, or in a config file)";
constexpr const char* kSettings = "Settings (as flag, as variable COLIBRI_<KEY>, or in a config file)";

// CLI11 indents the lines of a description but does not break them.
std::string wrapped(const std::string& text) {
  std::string result;
  size_t column = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (column > 0 && column + 1 + end - begin > kTextColumns) {
      result += '\n';
      column = 0;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result.append(text, begin, end - begin);
    column += end - begin;
    begin = end + 1;
  }
  return result;
}

// CLI11 puts the option's name in front. What was typed may be long.
std::string expected(const std::string& text, const std::string& what) {
  return "got \"" + text.substr(0, 40) + (text.size() > 40 ? "..." : "") + "\", expected " + what;
}

std::string range(uint64_t low, uint64_t high) { return std::to_string(low) + " to " + std::to_string(high); }

const CLI::Validator& finite() {
  static const CLI::Validator validator(
      [](std::string& text) {
        double number = 0;
        const bool good = CLI::detail::lexical_cast(text, number) && std::isfinite(number);
        return good ? "" : expected(text, "a finite number");
      },
      "");
  return validator;
}

template <typename T>
bool parse_number(std::string_view text, T& number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size();
}

const CLI::Validator& not_empty() {
  static const CLI::Validator validator([](std::string& text) { return text.empty() ? "is empty; name a file" : ""; },
                                        "");
  return validator;
}

// CLI11 would take -1 as 2^64 - 1.
const CLI::Validator& natural() {
  static const CLI::Validator validator(
      [](std::string& text) {
        uint64_t number = 0;
        return parse_number(text, number) ? "" : expected(text, range(0, UINT64_MAX));
      },
      "");
  return validator;
}

CLI::Validator at_least(int32_t low) {
  return {[low](std::string& text) {
            int32_t number = 0;
            const bool good = parse_number(text, number) && number >= low && number <= kMaxTokens;
            return good ? "" : expected(text, range(static_cast<uint64_t>(low), kMaxTokens));
          },
          ""};
}

// "42=-1.5".
colibri_logit_bias parse_bias(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  colibri_logit_bias bias{};
  const bool good = equals < text.size() && parse_number(std::string_view(text).substr(0, equals), bias.token) &&
                    parse_number(std::string_view(text).substr(equals + 1), bias.bias);
  if (!good) throw CLI::ValidationError("--logit-bias", text + " is no token id, =, and number, like 42=-1.5");
  return bias;
}

void add_model(CLI::App& app, std::string& model) {
  app.add_option("MODEL,-m,--model", model, "Hugging Face folder or GGUF file; or the variable COLIBRI_MODEL")
      ->type_name("");
}

void add_json(CLI::App& app, bool& json) { app.add_flag("--json", json, "print JSON"); }

void add_setting(CLI::App& app, EngineArgs& engine, const colibri_setting_info& info, const char* group) {
  const std::string key = info.key;
  const auto add = [&engine, key](const std::string& value) { engine.flags.emplace_back(key, value); };
  const std::string default_value = *info.default_value == '\0' ? "" : " [" + std::string(info.default_value) + "]";
  app.add_option_function<std::string>(flag_of(key), add,
                                       wrapped(std::string(info.help) + ": " + info.range + default_value))
      ->type_name(info.type)
      ->group(group);
}

// Last, because there are many.
void add_settings(CLI::App& app, EngineArgs& engine) {
  app.add_option("--config", engine.config, "JSON file of settings")->check(not_empty())->type_name("FILE");
  for (const colibri_setting_info* info : api::setting_infos()) add_setting(app, engine, *info, kSettings);
}

// The server's rows: --insecure stands for --insecure=true, and a list's flag may be repeated.
void add_server_settings(CLI::App& app, EngineArgs& engine) {
  for (const OwnSetting& row : server::setting_rows()) {
    const std::string key = row.info.key, type = row.info.type;
    if (type == "boolean") {
      const auto add = [&engine, key](int64_t count) { engine.flags.emplace_back(key, count > 0 ? "true" : "false"); };
      app.add_flag_function(flag_of(key), add, wrapped(row.info.help))->group(kServerSettings);
      continue;
    }
    add_setting(app, engine, row.info, kServerSettings);
    if (type == "list") app.get_option(flag_of(key))->join(',');
  }
}

void add_sampling(CLI::App& app, SamplingArgs& sampling) {
  const auto number = [&app](const char* name, std::optional<double>& value, const char* help) {
    app.add_option(name, value, help)->check(finite())->type_name("X")->group("Sampling");
  };
  number("--temperature", sampling.temperature, "0 is greedy [the model's, else 1]");
  app.add_option("--top-k", sampling.top_k, "only the K most likely tokens; 0: all")
      ->check(at_least(0))
      ->type_name("K")
      ->group("Sampling");
  number("--top-p", sampling.top_p, "only the most likely tokens that together reach this probability");
  number("--min-p", sampling.min_p, "only tokens at least this likely, relative to the best");
  number("--repetition-penalty", sampling.repetition_penalty, "divides the logits of tokens that occurred; 1: off");
  number("--presence-penalty", sampling.presence_penalty, "subtracted once from tokens that were generated");
  number("--frequency-penalty", sampling.frequency_penalty, "subtracted once per time a token was generated");
  app.add_option("--seed", sampling.seed, "same seed, same text [another one each time]")
      ->check(natural())
      ->type_name("N")
      ->group("Sampling");
  app.add_option("--stop", sampling.stop, "stop before this text; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->group("Sampling");
  const auto add_biases = [&sampling](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) sampling.logit_bias.push_back(parse_bias(text));
  };
  app.add_option_function<std::vector<std::string>>("--logit-bias", add_biases, "added to a logit; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name("ID=BIAS")
      ->group("Sampling");
  app.add_flag("--ignore-eos", sampling.ignore_eos, "an end-of-text token does not end the text")->group("Sampling");
}

void build_run(CLI::App& app, Arguments& out) {
  RunArgs& run = out.run;
  add_model(app, run.engine.model);
  app.add_option("-p,--prompt", run.prompt, "the prompt; without -p and -f it is standard input")->type_name("TEXT");
  app.add_option("-f,--file", run.prompt_file, "read the prompt from a file, - for standard input")
      ->check(not_empty())
      ->type_name("FILE");
  app.add_option("-n,--max-tokens", run.max_tokens, "tokens to write at most [until the text or the context ends]")
      ->check(at_least(0))
      ->type_name("N");
  app.add_flag("--chat", run.chat, "the prompt is a message: apply the chat template");
  app.add_option("--system", run.system, "system message for --chat")->type_name("TEXT");
  app.add_option("--stats", run.stats_file, "write statistics as JSON")->check(not_empty())->type_name("FILE");
  app.add_option("--trace", run.trace_file, "write which experts every token chose, as JSON lines")
      ->check(not_empty())
      ->type_name("FILE");
  app.add_flag("--json", run.json, "print one JSON object: text, tokens, finish_reason, stats");
  add_sampling(app, run.sampling);
  add_settings(app, run.engine);
}

void build_chat(CLI::App& app, Arguments& out) {
  add_model(app, out.chat.engine.model);
  app.add_option("-n,--max-tokens", out.chat.max_tokens, "tokens per answer at most [until it or the context ends]")
      ->check(at_least(1))
      ->type_name("N");
  app.add_option("--system", out.chat.system, "system message")->type_name("TEXT");
  add_sampling(app, out.chat.sampling);
  add_settings(app, out.chat.engine);
}

void build_serve(CLI::App& app, Arguments& out) {
  add_model(app, out.serve.engine.model);
  add_server_settings(app, out.serve.engine);
  add_settings(app, out.serve.engine);
}

void build_tokenize(CLI::App& app, Arguments& out) {
  add_model(app, out.text.model);
  app.add_flag("--jsonl", out.text.jsonl, "a JSON string per line gives an array of ids per line");
  app.add_flag("--special", out.text.special, "add the tokens that the model wants around a text (BOS)");
}

void build_detokenize(CLI::App& app, Arguments& out) {
  add_model(app, out.text.model);
  app.add_flag("--jsonl", out.text.jsonl, "an array of ids per line gives a JSON string per line");
}

void build_template(CLI::App& app, Arguments& out) {
  add_model(app, out.text.model);
  app.add_flag("--jsonl", out.text.jsonl, "a JSON object per line gives a JSON string per line");
  app.add_option("--template", out.text.template_file, "this Jinja file instead of the model's; needs no MODEL")
      ->check(not_empty())
      ->type_name("FILE");
  app.add_option("--now", out.text.now, "the time that strftime_now shows")->type_name("YYYY-MM-DDTHH:MM:SS");
}

void build_logits(CLI::App& app, Arguments& out) {
  add_model(app, out.logits.engine.model);
  app.add_option("--tokens", out.logits.tokens_file, "{\"prompts\": [[ids], ...]}")
      ->check(not_empty())
      ->type_name("FILE")
      ->required();
  app.add_option("--out", out.logits.out_file, "logits and routing as safetensors")
      ->check(not_empty())
      ->type_name("FILE")
      ->required();
  app.add_option("--continue", out.logits.continue_tokens, "also the N most likely tokens that follow")
      ->check(at_least(0))
      ->type_name("N");
  add_settings(app, out.logits.engine);
}

void build_perplexity(CLI::App& app, Arguments& out) {
  PerplexityArgs& args = out.perplexity;
  add_model(app, args.engine.model);
  app.add_option("-f,--file", args.text_file, "the text; without -f and --tokens it is standard input")
      ->check(not_empty())
      ->type_name("FILE");
  app.add_option("--tokens", args.tokens_file, "token ids instead of a text: [ids] or {\"prompts\": [[ids], ...]}")
      ->check(not_empty())
      ->type_name("FILE");
  app.add_option("--window", args.window, "tokens per window [512]")->check(at_least(2))->type_name("N");
  app.add_option("--score-from", args.score_from, "first position of each window that counts [1]")
      ->check(at_least(1))
      ->type_name("N");
  app.add_flag("--special", args.special, "add the tokens that the model wants around a text (BOS)");
  add_json(app, args.json);
  add_settings(app, args.engine);
}

void build_bench(CLI::App& app, Arguments& out) {
  BenchArgs& args = out.bench;
  add_model(app, args.engine.model);
  const auto count = [&app](const char* name, int32_t& value, int32_t low, const char* help) {
    app.add_option(name, value, help)->check(at_least(low))->type_name("N");
  };
  count("-p,--prompt-tokens", args.prompt_tokens, 0, "tokens to prefill; 0: no prefill [512]");
  count("-n,--generated-tokens", args.generated_tokens, 0, "tokens to decode; 0: no decode [64]");
  count("-r,--repetitions", args.repetitions, 1, "repetitions [5]");
  count("--depth", args.depth, 0, "tokens that stand before the decoded ones [0]");
  app.add_option("--warmup", args.warmup, "1: a short run first [1]")->check(CLI::IsMember({0, 1}))->type_name("0|1");
  app.add_option("-f,--file", args.text_file, "tokens of this text instead of random ones")
      ->check(not_empty())
      ->type_name("FILE");
  app.add_option("--seed", args.seed, "of the random tokens [1]")->check(natural())->type_name("N");
  app.add_flag("--json", args.json, "print a JSON array, one object per repetition");
  add_settings(app, args.engine);
}

void build_plan(CLI::App& app, Arguments& out) {
  add_model(app, out.report.engine.model);
  add_json(app, out.report.json);
  add_settings(app, out.report.engine);
}

void build_inspect(CLI::App& app, Arguments& out) {
  add_model(app, out.report.engine.model);
  app.add_flag("--tensors", out.report.tensors, "list every tensor");
  add_json(app, out.report.json);
}

void build_validate(CLI::App& app, Arguments& out) {
  add_model(app, out.report.engine.model);
  app.add_flag("--tokenizer", out.report.tokenizer, "check vocabulary and chat template instead of the weights");
  add_json(app, out.report.json);
}

void build_doctor(CLI::App& app, Arguments& out) {
  add_model(app, out.report.engine.model);
  add_json(app, out.report.json);
}

void build_test(CLI::App& app, Arguments& out) {
  app.add_option("WHAT", out.report.what, "kernels or router")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"kernels", "router"}));
  add_json(app, out.report.json);
}

void build_config(CLI::App& app, Arguments& out) {
  add_model(app, out.report.engine.model);
  add_json(app, out.report.json);
  add_server_settings(app, out.report.engine);
  add_settings(app, out.report.engine);
}

void build_version(CLI::App& app, Arguments& out) { add_json(app, out.report.json); }

struct CommandInfo {
  const char* name;
  const char* summary;
  void (*build)(CLI::App&, Arguments&);
};

constexpr CommandInfo kCommands[] = {
    {"run", "continue a prompt", build_run},
    {"chat", "talk with a model", build_chat},
    {"serve", "answer over HTTP, like OpenAI's API", build_serve},
    {"tokenize", "text on standard input to token ids", build_tokenize},
    {"detokenize", "token ids on standard input to text", build_detokenize},
    {"template", "chat messages as JSON on standard input to prompt text", build_template},
    {"logits", "logits and routing of given tokens, as safetensors", build_logits},
    {"perplexity", "how well a model predicts a text", build_perplexity},
    {"bench", "measure prefill and decode", build_bench},
    {"plan", "what a run would keep in memory, what it would read, how fast it could be", build_plan},
    {"inspect", "what a model is made of; loads nothing", build_inspect},
    {"validate", "check a model's files, every tensor of them", build_validate},
    {"doctor", "what this machine offers, the disk of MODEL, and what to change", build_doctor},
    {"test", "check the kernels of this CPU: test kernels, test router", build_test},
    {"config", "every setting, its value, and where that came from", build_config},
    {"version", "the version of this program", build_version},
};

constexpr const char* kLaterCommands[] = {"convert"};

std::string program_help() {
  std::string text = "Colibri runs mixture-of-experts language models.\n\nUsage: colibri COMMAND [MODEL] [OPTIONS]\n\n";
  for (const CommandInfo& command : kCommands) {
    std::string name = "  " + std::string(command.name);
    name.resize(14, ' ');
    text += name + command.summary + "\n";
  }
  text +=
      "\n`colibri COMMAND --help` lists the options of a command.\n"
      "MODEL is a Hugging Face folder (safetensors) or a GGUF file: an argument, --model, or the variable "
      "COLIBRI_MODEL.\n"
      "Exit status: 0 done, 1 failed, 2 usage, 3 bad model, 4 does not fit, 5 input/output, 130 and 143 interrupted.\n";
  return text;
}

Arguments help_answer(std::string text) {
  Arguments answer;
  answer.command = "help";
  answer.help = std::move(text);
  return answer;
}

Error unknown_command(const std::string& name) {
  if (std::find(std::begin(kLaterCommands), std::end(kLaterCommands), name) != std::end(kLaterCommands)) {
    return usage_error("this version does not have `" + name + "` yet; `colibri help` lists what it has");
  }
  std::vector<std::string> names;
  for (const CommandInfo& command : kCommands) names.emplace_back(command.name);
  const std::string kind = name.starts_with("-") ? "option " : "command ";
  return usage_error("unknown " + kind + name + "; did you mean `colibri " + nearest(name, names) +
                     "`? See `colibri help`");
}

Error unexpected(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  const auto option = std::find_if(extras.begin(), extras.end(), [](const auto& e) { return e.starts_with("-"); });
  const std::string see = "; see `" + app.get_name() + " --help`";
  if (option == extras.end()) return usage_error("unexpected argument \"" + extras.front() + "\"" + see);
  std::vector<std::string> names;
  for (const CLI::Option* known : app.get_options()) {
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : known->get_snames()) names.push_back("-" + name);
  }
  const std::string word = option->substr(0, option->find('='));
  return usage_error("unknown option " + word + "; the nearest is " + nearest(word, names) + see);
}

// "--threads: At Most 1 required but received 2" the way people say it, and the others as they are.
std::string plainly(const std::string& message) {
  static constexpr std::string_view kTooMany = ": At Most 1 required but received ";
  const size_t at = message.find(kTooMany);
  if (at == message.npos) return message;
  const std::string times = message.substr(at + kTooMany.size());
  return message.substr(0, at) + ": given " + (times == "2" ? "twice" : times + " times") + ", once is allowed";
}

std::string* model_of(Arguments& arguments) {
  const std::string& command = arguments.command;
  if (command == "run") return &arguments.run.engine.model;
  if (command == "chat") return &arguments.chat.engine.model;
  if (command == "serve") return &arguments.serve.engine.model;
  if (command == "logits") return &arguments.logits.engine.model;
  if (command == "perplexity") return &arguments.perplexity.engine.model;
  if (command == "bench") return &arguments.bench.engine.model;
  if (command == "tokenize" || command == "detokenize" || command == "template") return &arguments.text.model;
  return &arguments.report.engine.model;
}

void model_from_environment(Arguments& arguments) {
  std::string* model = model_of(arguments);
  const char* variable = std::getenv("COLIBRI_MODEL");
  if (model->empty() && variable != nullptr) *model = variable;
}

Outcome<Arguments> parse_command(const CommandInfo& command, std::vector<std::string> words) {
  Arguments arguments;
  arguments.command = command.name;
  CLI::App app(command.summary, "colibri " + arguments.command);
  app.set_help_flag("-h,--help", "print this help");
  app.get_formatter()->column_width(kNameColumn);
  command.build(app, arguments);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    return help_answer(app.help());
  } catch (const CLI::ExtrasError&) {
    return unexpected(app);
  } catch (const CLI::ParseError& error) {
    return usage_error(command.name + std::string(": ") + plainly(error.what()) + "; see `" + app.get_name() +
                       " --help`");
  }
  model_from_environment(arguments);
  return arguments;
}

}  // namespace

Outcome<Arguments> parse_arguments(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return usage_error("no command; `colibri help` lists them");
  const std::string& first = arguments.front();
  const bool asks = first == "help" || first == "-h" || first == "--help";
  if (asks && arguments.size() == 1) return help_answer(program_help());
  const std::string name = asks ? arguments[1] : first == "--version" ? "version" : first;
  for (const CommandInfo& command : kCommands) {
    if (name != command.name) continue;
    return parse_command(
        command, asks ? std::vector<std::string>{"--help"} : std::vector(arguments.begin() + 1, arguments.end()));
  }
  return unknown_command(name);
}

}  // namespace colibri::cli

#include "args.h"

#include <gtest/gtest.h>

#include <map>

namespace colibri::cli {
namespace {

std::string message_of(const std::vector<std::string>& words) {
  const auto args = parse_arguments(words);
  if (args.ok()) return "";
  EXPECT_EQ(2, args.error().exit_code());
  return args.error().message;
}

TEST(Arguments, ModelIsAnArgumentOrAnOption) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"run", "M", "-p", "x"},
                                                {"run", "-p", "x", "M"},
                                                {"run", "--model", "M", "-p", "x"},
                                                {"run", "--model=M", "-p", "x"}}) {
    const auto args = parse_arguments(words);
    ASSERT_TRUE(args.ok());
    EXPECT_EQ("M", args->run.engine.model);
    EXPECT_EQ("x", args->run.prompt);
  }
}

TEST(Arguments, PromptMayBeEmptyOrLookLikeAnythingElse) {
  for (const char* text : {"", "-x", "--help", "[a,b]", "{}", "run", " \n", "--"}) {
    const auto args = parse_arguments({"run", "M", "-p", text});
    ASSERT_TRUE(args.ok()) << text << ": " << args.error().message;
    EXPECT_EQ(text, args->run.prompt);
  }
}

TEST(Arguments, StopTextsAreKeptAsTheyAre) {
  const auto args = parse_arguments({"run", "M", "--stop", "[a,b]", "-p", "x", "--stop", "c d", "--stop", "-"});
  ASSERT_TRUE(args.ok()) << args.error().message;
  EXPECT_EQ((std::vector<std::string>{"[a,b]", "c d", "-"}), args->run.sampling.stop);
  EXPECT_EQ("M", args->run.engine.model);
}

TEST(Arguments, LogitBiasesAreNumbersByToken) {
  const auto args = parse_arguments({"run", "M", "--logit-bias", "5=-1.5", "--logit-bias", "7=2"});
  ASSERT_TRUE(args.ok()) << args.error().message;
  ASSERT_EQ(2U, args->run.sampling.logit_bias.size());
  EXPECT_EQ(5, args->run.sampling.logit_bias[0].token);
  EXPECT_EQ(-1.5, args->run.sampling.logit_bias[0].bias);
  for (const char* text : {"5", "=1", "5=", "x=1", "5=1x"}) {
    EXPECT_NE("", message_of({"run", "M", "--logit-bias", text})) << text;
  }
}

TEST(Arguments, NegativePenaltiesAreNoOptions) {
  const auto args = parse_arguments({"run", "M", "--presence-penalty", "-1.5"});
  ASSERT_TRUE(args.ok()) << args.error().message;
  EXPECT_EQ(-1.5, args->run.sampling.presence_penalty);
}

TEST(Arguments, EverySettingIsAFlag) {
  for (const colibri_setting_info* info : api::setting_infos()) {
    std::string flag = "--" + std::string(info->key);
    std::replace(flag.begin(), flag.end(), '_', '-');
    for (const char* command : {"run", "chat", "perplexity", "bench", "config"}) {
      EXPECT_EQ("", message_of({command, "M", flag, "x"})) << command;  // values are checked later, with their origin
    }
  }
}

TEST(Arguments, MistakesNameTheNearest) {
  EXPECT_NE(std::string::npos, message_of({"rnu"}).find("colibri run"));
  EXPECT_NE(std::string::npos, message_of({"run", "--thraeds", "3"}).find("--threads"));
  EXPECT_NE(std::string::npos, message_of({"run", "--tempreature=1"}).find("--temperature"));
}

TEST(Arguments, NumbersOutOfRangeAreRefused) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"run", "-n", "-1"},
                                                {"run", "-n", "99999999999"},
                                                {"run", "-n", "x"},
                                                {"run", "--temperature", "nan"},
                                                {"run", "--temperature", "1e999"},
                                                {"run", "--seed", "-1"},
                                                {"bench", "-r", "0"},
                                                {"bench", "--warmup", "2"},
                                                {"perplexity", "--window", "1"},
                                                {"logits", "--tokens", "t", "--out", "o", "--continue", "-1"},
                                                {"test", "x"},
                                                {"test"}}) {
    EXPECT_NE("", message_of(words)) << words[1];
  }
}

TEST(Arguments, MistakesAreSaidPlainly) {
  EXPECT_NE(std::string::npos, message_of({"run", "--threads", "1", "--threads", "2"}).find("--threads: given twice"));
  EXPECT_NE(std::string::npos, message_of({"bench", "-r", "0"}).find("expected 1 to 1073741824"));
  EXPECT_NE(std::string::npos, message_of({"logits", "--tokens", "t", "--out", ""}).find("--out: is empty"));
  EXPECT_GT(200U, message_of({"bench", "-r", std::string(5000, '9')}).size());
}

TEST(Arguments, CommandsOfLaterVersionsSaySo) {
  EXPECT_NE(std::string::npos, message_of({"convert"}).find("this version does not have"));
}

TEST(Arguments, TheServersSwitchesNeedNoValueAndItsListsGrow) {
  const auto args =
      parse_arguments({"serve", "--insecure", "M", "--log-json=false", "--cors-origin", "a", "--cors-origin", "b,c"});
  ASSERT_TRUE(args) << args.error().message;
  EXPECT_EQ("M", args->serve.engine.model);
  std::map<std::string, std::string> flags(args->serve.engine.flags.begin(), args->serve.engine.flags.end());
  EXPECT_EQ((std::map<std::string, std::string>{{"insecure", "true"}, {"log_json", "false"}, {"cors_origin", "a,b,c"}}),
            flags);
}

TEST(Arguments, EveryCommandHasHelp) {
  for (const char* command : {"run", "chat", "serve", "tokenize", "detokenize", "template", "logits", "perplexity",
                              "bench", "plan", "inspect", "validate", "doctor", "test", "config", "version"}) {
    const auto args = parse_arguments({command, "--help"});
    ASSERT_TRUE(args.ok());
    EXPECT_EQ("help", args->command);
    EXPECT_NE(std::string::npos, args->help.find("Usage: colibri " + std::string(command)));
    EXPECT_EQ(args->help, parse_arguments({"help", command})->help);
  }
}

}  // namespace
}  // namespace colibri::cli

#include <gtest/gtest.h>

#include "args.h"

namespace colibri::cli {
namespace {

using Words = std::vector<std::string>;

TEST(Aliases, CommandsStayAsTheyAre) {
  const Words words{"colibri", "run", "M", "-p", "x", "--validate"};
  EXPECT_EQ(words, expand_aliases(words));
}

TEST(Aliases, CliWithOptionsMeansRun) {
  EXPECT_EQ((Words{"bin/colibri-cli", "run", "--model", "M", "--prompt", "x"}),
            expand_aliases({"bin/colibri-cli", "--model", "M", "--prompt", "x"}));
  EXPECT_EQ((Words{"colibri-cli", "bench", "M"}), expand_aliases({"colibri-cli", "bench", "M"}));
}

TEST(Aliases, ServerWithOptionsMeansServe) {
  EXPECT_EQ((Words{"colibri-server", "serve", "--model", "M"}), expand_aliases({"colibri-server", "--model", "M"}));
}

TEST(Aliases, OldQuestionsBecomeCommandsUnderEveryName) {
  for (const char* name : {"colibri", "colibri-cli", "colibri-server"}) {
    EXPECT_EQ((Words{name, "validate", "--model", "M"}), expand_aliases({name, "--model", "M", "--validate"}));
    EXPECT_EQ((Words{name, "validate", "--tokenizer", "--model", "M"}),
              expand_aliases({name, "--validate-tokenizer", "--model", "M"}));
    EXPECT_EQ((Words{name, "test", "router"}), expand_aliases({name, "--test", "router"}));
    EXPECT_EQ((Words{name, "test", "router", "--json"}), expand_aliases({name, "--test=router", "--json"}));
  }
}

TEST(Aliases, HelpAndVersionAreTheProgramsOwn) {
  for (const char* question : {"--help", "-h", "--version"}) {
    EXPECT_EQ((Words{"colibri-cli", question}), expand_aliases({"colibri-cli", question}));
  }
}

TEST(Aliases, NoArgumentsAtAllIsNoCrash) { EXPECT_EQ((Words{"colibri"}), expand_aliases({})); }

}  // namespace
}  // namespace colibri::cli

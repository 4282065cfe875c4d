#include "platform/system.h"

#include <gtest/gtest.h>

#include "platform/cpu.h"

namespace colibri::platform {
namespace {

TEST(System, FactsAreThoseOfThisMachine) {
  const SystemFacts facts = system_facts();
  EXPECT_GE(facts.online_cores, usable_cores());
  EXPECT_GT(facts.total_memory, int64_t{64} << 20);
  EXPECT_NE(facts.open_files, 0);
  EXPECT_TRUE(facts.kernel.starts_with("Linux ")) << facts.kernel;
}

TEST(System, TheChosenWordStandsInBrackets) {
  EXPECT_EQ(chosen_word("always [madvise] never\n"), "madvise");
  EXPECT_EQ(chosen_word("[always] madvise never\n"), "always");
  EXPECT_EQ(chosen_word("always"), "");
  EXPECT_EQ(chosen_word("] ["), "");
  EXPECT_EQ(chosen_word(""), "");
}

TEST(Environment, VariablesThatAreNotSetAreEmpty) {
  ASSERT_EQ(::setenv("SYSTEM_TEST_VARIABLE", "some value", 1), 0);
  EXPECT_EQ(environment_variable("SYSTEM_TEST_VARIABLE"), "some value");
  ASSERT_EQ(::unsetenv("SYSTEM_TEST_VARIABLE"), 0);
  EXPECT_EQ(environment_variable("SYSTEM_TEST_VARIABLE"), "");
}

}  // namespace
}  // namespace colibri::platform

#include "engine/settings.h"

#include <gtest/gtest.h>

namespace colibri::engine {
namespace {

TEST(Settings, EveryDefaultInTheTableIsAcceptedAndIsTheValueOfAFreshSettings) {
  const Settings fresh;
  for (const SettingRow& row : setting_rows()) {
    Settings settings;
    const Status status = apply_setting(row.key, row.default_value, settings);
    EXPECT_TRUE(status.ok()) << row.key;
    EXPECT_EQ(settings.context, fresh.context);
    EXPECT_EQ(settings.parallel, fresh.parallel);
    EXPECT_EQ(settings.prefill_chunk, fresh.prefill_chunk);
    EXPECT_EQ(settings.threads, fresh.threads);
    EXPECT_EQ(settings.isa, fresh.isa);
    EXPECT_EQ(settings.io, fresh.io);
  }
}

TEST(Settings, AnUnknownKeyNamesTheNearest) {
  Settings settings;
  const Status status = apply_setting("prefil_chunk", "4", settings);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUsage);
  EXPECT_NE(status.error().message.find("prefill_chunk"), std::string::npos);
}

TEST(Settings, ValuesOutOfRangeAreRefusedWithTheRange) {
  Settings settings;
  for (const auto& [key, value] : {std::pair{"threads", "0"},
                                   {"threads", "-1"},
                                   {"threads", "2x"},
                                   {"threads", ""},
                                   {"isa", "avx1024"},
                                   {"isa", "or"},
                                   {"isa", "avx512 or"},
                                   {"memory", "0"},
                                   {"memory", "nan"},
                                   {"memory", "12Q"},
                                   {"expert_memory", "101%"},
                                   {"prefetch_weight", "nan"},
                                   {"context", "99999999999999999999"}}) {
    const Status status = apply_setting(key, value, settings);
    ASSERT_FALSE(status.ok()) << key << " = " << value;
    EXPECT_NE(status.error().message.find("expected"), std::string::npos) << status.error().message;
  }
}

TEST(Settings, SizesAreInPowersOf1024) {
  EXPECT_EQ(parse_bytes("512"), 512);
  EXPECT_EQ(parse_bytes("8K"), 8192);
  EXPECT_EQ(parse_bytes("1.5g"), int64_t{3} << 29);
  EXPECT_EQ(parse_bytes("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("G"), -1);
  EXPECT_EQ(parse_bytes("-1"), -1);
  EXPECT_EQ(parse_bytes("1e300G"), -1);
}

}  // namespace
}  // namespace colibri::engine

#include <gtest/gtest.h>

#include "compute/cpu/isa.h"
#include "compute/cpu/test_data.h"

namespace colibri::compute {
namespace {

BackendOptions options(const std::string& isa, int threads) {
  BackendOptions o;
  o.isa = isa;
  o.threads = threads;
  o.limits = test_limits();
  return o;
}

TEST(Create, EveryAvailableLevelAndEveryThreadCountWorks) {
  for (const IsaLevel& level : isa_levels()) {
    const auto backend = create_cpu_backend(options(level.name, 2));
    ASSERT_EQ(backend.ok(), level.available) << level.name;
    if (!backend.ok()) continue;
    EXPECT_EQ((*backend)->isa(), level.name);
    EXPECT_EQ((*backend)->threads(), 2);
  }
}

TEST(Create, AutoIsTheBestLevelWithKernelsOfItsOwn) {
  const std::string chosen = create_cpu_backend(options("auto", 1)).value()->isa();
  for (const Isa& isa : all_isas()) {
    if (!isa.own_kernels || !is_available(isa)) continue;
    EXPECT_EQ(chosen, isa.name);
    break;
  }
}

TEST(Create, UnknownAndMissingLevelsAreUsageErrorsThatListWhatThereIs) {
  const auto unknown = create_cpu_backend(options("avx3", 1));
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kUsage);
  EXPECT_NE(unknown.error().message.find("avx512"), std::string::npos);
  for (const IsaLevel& level : isa_levels()) {
    if (level.available) continue;
    const auto missing = create_cpu_backend(options(level.name, 1));
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().code, ErrorCode::kUsage);
    EXPECT_NE(missing.error().message.find("scalar"), std::string::npos);
  }
}

TEST(Create, ThreadCountsOutOfRangeAreUsageErrors) {
  for (int threads : {-1, 0, 1 << 20}) {
    const auto backend = create_cpu_backend(options("auto", threads));
    ASSERT_FALSE(backend.ok());
    EXPECT_EQ(backend.error().code, ErrorCode::kUsage);
    BackendOptions router = options("auto", 2);
    router.router_threads = threads;
    const auto other = create_cpu_backend(router);
    ASSERT_FALSE(other.ok());
    EXPECT_NE(other.error().message.find("router_threads"), std::string::npos);
  }
}

TEST(Create, ScratchBytesFollowFromTheLimits) {
  BackendOptions small = options("auto", 1), more_rows = small, more_threads = small, dense;
  more_rows.limits.max_rows *= 2;
  more_threads.threads = 2;
  EXPECT_GT(cpu_backend_scratch_bytes(more_rows), cpu_backend_scratch_bytes(small));
  EXPECT_GT(cpu_backend_scratch_bytes(more_threads), cpu_backend_scratch_bytes(small));
  dense.limits.max_rows = 3;
  dense.limits.max_inputs = 100;
  EXPECT_LT(cpu_backend_scratch_bytes(dense), 128 * 1024) << "no MoE, no attention";
  BackendOptions one_kind = options("auto", 1);
  one_kind.limits.float_experts = false;
  EXPECT_LT(cpu_backend_scratch_bytes(one_kind), cpu_backend_scratch_bytes(small)) << "no hidden rows as floats";
}

}  // namespace
}  // namespace colibri::compute

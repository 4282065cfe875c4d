#include "platform/cpu.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "platform/posix/cgroup.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>
#endif

namespace colibri::platform {
namespace {

#if defined(__x86_64__)

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;  // zero when the leaf does not exist
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool bit(uint32_t word, int n) { return (word >> n & 1u) != 0; }

// XCR0: the register states that the operating system saves. REQUIRES: CPUID.1.ECX.OSXSAVE.
uint64_t saved_states() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

CpuFeatures detect() {
  constexpr uint64_t kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;
  const Registers basic = cpuid(1, 0), extended = cpuid(7, 0), more = cpuid(7, 1);
  const uint64_t states = bit(basic.ecx, 27) ? saved_states() : 0;
  const bool ymm = (states & kYmm) == kYmm, zmm = (states & kZmm) == kZmm, tiles = (states & kTiles) == kTiles;

  CpuFeatures f;
  f.sse41 = bit(basic.ecx, 19);
  const bool fma = bit(basic.ecx, 12), avx = bit(basic.ecx, 28), f16c = bit(basic.ecx, 29);
  f.avx2 = ymm && avx && fma && f16c && bit(extended.ebx, 5);
  f.avx_vnni = f.avx2 && bit(more.eax, 4);
  const bool foundation = bit(extended.ebx, 16), dq = bit(extended.ebx, 17);
  const bool bw = bit(extended.ebx, 30), vl = bit(extended.ebx, 31);
  f.avx512 = f.avx2 && zmm && foundation && dq && bw && vl;
  f.avx512_vnni = f.avx512 && bit(extended.ecx, 11);
  f.amx_int8 = f.avx512 && tiles && bit(extended.edx, 24) && bit(extended.edx, 25);
  return f;
}

// Linux hands out the large tile state only on request (arch/x86/xstate in the kernel's documentation); it may refuse.
bool request_tiles() {
  constexpr long kArchReqXcompPerm = 0x1023, kTileData = 18;
  return cpu_features().amx_int8 && ::syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

#else

CpuFeatures detect() { return {}; }
bool request_tiles() { return false; }

#endif

// Cores in the affinity mask. The mask may be wider than cpu_set_t on large machines, so it grows until it fits.
int affinity_cores() {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    std::vector<cpu_set_t> mask(static_cast<size_t>(cpus / 1024));
    const size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, mask.data()) == 0) return CPU_COUNT_S(bytes, mask.data());
  }
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

bool tiles_permitted() {
  static const bool permitted = request_tiles();
  return permitted;
}

int usable_cores() {
  const int cores = std::max(1, affinity_cores());
  const int quota = cgroup_cpus(own_cgroup_folders("cpu")).value_or(cores);
  return std::min(cores, quota);
}

}  // namespace colibri::platform

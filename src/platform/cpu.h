// What this CPU can do, as far as the operating system lets us use it. Detected once.
#pragma once

namespace colibri::platform {

struct CpuFeatures {
  bool sse41 = false;
  bool avx2 = false;  ///< with FMA and F16C, and the OS saving YMM state
  bool avx_vnni = false;
  bool avx512 = false;  ///< F, BW, DQ, VL, and the OS saving ZMM state
  bool avx512_vnni = false;
  bool amx_int8 = false;  ///< CPUID only; permission is asked for where it is used
};

const CpuFeatures& cpu_features();
/// Cores that this process may use: the least of its affinity mask and the cgroup's quota, at least 1.
int usable_cores();

}  // namespace colibri::platform

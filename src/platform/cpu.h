// What this CPU can do, as far as the operating system lets us use it. Detected once.
#pragma once

namespace colibri::platform {

struct CpuFeatures {
  bool sse41 = false;
  bool avx2 = false;  ///< with FMA and F16C, and the OS saving YMM state
  bool avx_vnni = false;
  bool avx512 = false;  ///< F, BW, DQ, VL, and the OS saving ZMM state
  bool avx512_vnni = false;
  bool amx_int8 = false;  ///< with the OS knowing tile registers; see tiles_permitted
};

const CpuFeatures& cpu_features();
/// This process may use tile registers (AMX). The first call asks the operating system for all threads, present and
/// future; nothing else does, because permission makes signal frames larger.
bool tiles_permitted();
/// Cores that this process may use: the least of its affinity mask and the cgroup's quota, at least 1.
int usable_cores();

}  // namespace colibri::platform

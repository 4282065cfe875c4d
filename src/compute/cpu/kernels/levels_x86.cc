// The levels of x86-64. amx and avxvnni have no kernels of their own yet.
#include "compute/cpu/isa.h"

namespace colibri::compute {
namespace {

using platform::CpuFeatures;

bool always(const CpuFeatures&) { return true; }
bool never(const CpuFeatures&) { return false; }
bool has_sse4(const CpuFeatures& f) { return f.sse41; }
bool has_avx2(const CpuFeatures& f) { return f.avx2; }
bool has_avx_vnni(const CpuFeatures& f) { return f.avx2 && f.avx_vnni; }
bool has_avx512(const CpuFeatures& f) { return f.avx2 && f.avx512; }
bool has_amx(const CpuFeatures& f) { return has_avx512(f) && f.amx_int8; }

constexpr Isa kIsas[] = {
    {"amx", has_amx, &kAvx512Kernels, false},        {"avx512", has_avx512, &kAvx512Kernels, true},
    {"avxvnni", has_avx_vnni, &kAvx2Kernels, false}, {"avx2", has_avx2, &kAvx2Kernels, true},
    {"sse4", has_sse4, &kSse4Kernels, true},         {"neon", never, nullptr, false},
    {"scalar", always, &kScalarKernels, true},
};

}  // namespace

std::span<const Isa> all_isas() { return kIsas; }

}  // namespace colibri::compute

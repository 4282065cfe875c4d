// The levels of x86-64. avx512 means with VNNI: processors with AVX-512 alone run avx2.
#include "compute/cpu/isa.h"

namespace colibri::compute {
namespace {

using platform::CpuFeatures;

bool always(const CpuFeatures&) { return true; }
bool never(const CpuFeatures&) { return false; }
bool has_sse4(const CpuFeatures& f) { return f.sse41; }
bool has_avx2(const CpuFeatures& f) { return f.avx2; }
bool has_avx_vnni(const CpuFeatures& f) { return f.avx2 && f.avx_vnni; }
bool has_avx512(const CpuFeatures& f) { return f.avx2 && f.avx512_vnni; }
bool has_amx(const CpuFeatures& f) { return has_avx512(f) && f.amx_int8; }

#ifdef COLIBRI_AMX
constexpr const KernelTable* kAmx = &kAmxKernels;
#else
constexpr const KernelTable* kAmx = nullptr;  // the compiler does not know it
#endif

constexpr Isa kIsas[] = {
    {"amx", has_amx, platform::tiles_permitted, kAmx, true, &kAvx512RecurrentKernels},
    {"avx512", has_avx512, nullptr, &kAvx512Kernels, true, &kAvx512RecurrentKernels},
    {"avxvnni", has_avx_vnni, nullptr, &kAvxVnniKernels, true, &kAvx2RecurrentKernels},
    {"avx2", has_avx2, nullptr, &kAvx2Kernels, true, &kAvx2RecurrentKernels},
    {"sse4", has_sse4, nullptr, &kSse4Kernels, true, &kSse4RecurrentKernels},
    {"neon", never, nullptr, nullptr, false, nullptr},
    {"scalar", always, nullptr, &kScalarKernels, true, &kScalarRecurrentKernels},
};

}  // namespace

std::span<const Isa> all_isas() { return kIsas; }

}  // namespace colibri::compute

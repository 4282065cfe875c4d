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

// COLIBRI_Amx and so on: the kernels, or nullptr in a build without them (CMakeLists.txt).
constexpr Isa kIsas[] = {
    {"amx", has_amx, platform::tiles_permitted, COLIBRI_Amx, true, COLIBRI_Avx512Recurrent},
    {"avx512", has_avx512, nullptr, COLIBRI_Avx512, true, COLIBRI_Avx512Recurrent},
    {"avxvnni", has_avx_vnni, nullptr, COLIBRI_AvxVnni, true, COLIBRI_Avx2Recurrent},
    {"avx2", has_avx2, nullptr, COLIBRI_Avx2, true, COLIBRI_Avx2Recurrent},
    {"sse4", has_sse4, nullptr, COLIBRI_Sse4, true, COLIBRI_Sse4Recurrent},
    {"neon", never, nullptr, nullptr, false, nullptr},
    {"scalar", always, nullptr, &kScalarKernels, true, &kScalarRecurrentKernels},
};

}  // namespace

std::span<const Isa> all_isas() { return kIsas; }

}  // namespace colibri::compute

// The levels of a processor that has no vector kernels yet.
#include "compute/cpu/isa.h"

namespace colibri::compute {
namespace {

bool always(const platform::CpuFeatures&) { return true; }
bool never(const platform::CpuFeatures&) { return false; }

constexpr Isa kIsas[] = {
    {"amx", never, nullptr, nullptr, false, nullptr},
    {"avx512", never, nullptr, nullptr, false, nullptr},
    {"avxvnni", never, nullptr, nullptr, false, nullptr},
    {"avx2", never, nullptr, nullptr, false, nullptr},
    {"sse4", never, nullptr, nullptr, false, nullptr},
    {"neon", never, nullptr, nullptr, false, nullptr},
    {"scalar", always, nullptr, &kScalarKernels, true, &kScalarRecurrentKernels},
};

}  // namespace

std::span<const Isa> all_isas() { return kIsas; }

}  // namespace colibri::compute

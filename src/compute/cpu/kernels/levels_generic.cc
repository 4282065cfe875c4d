// The levels of a processor that has no vector kernels yet.
#include "compute/cpu/isa.h"

namespace colibri::compute {
namespace {

bool always(const platform::CpuFeatures&) { return true; }
bool never(const platform::CpuFeatures&) { return false; }

constexpr Isa kIsas[] = {
    {"amx", never, nullptr, false},
    {"avx512", never, nullptr, false},
    {"avxvnni", never, nullptr, false},
    {"avx2", never, nullptr, false},
    {"sse4", never, nullptr, false},
    {"neon", never, nullptr, false},
    {"scalar", always, &kScalarKernels, true},
};

}  // namespace

std::span<const Isa> all_isas() { return kIsas; }

}  // namespace colibri::compute

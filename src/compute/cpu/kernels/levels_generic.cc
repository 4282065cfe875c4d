// The levels of a processor that has no vector kernels yet.
#include "compute/cpu/isa.h"

namespace colibri::compute {
namespace {

bool always(const platform::CpuFeatures&) { return true; }
bool never(const platform::CpuFeatures&) { return false; }

constexpr Isa kIsas[] = {
    {"amx", never, nullptr, nullptr, false},
    {"avx512", never, nullptr, nullptr, false},
    {"avxvnni", never, nullptr, nullptr, false},
    {"avx2", never, nullptr, nullptr, false},
    {"sse4", never, nullptr, nullptr, false},
    {"neon", never, nullptr, nullptr, false},
    {"scalar", always, nullptr, &kScalarKernels, true},
};

}  // namespace

std::span<const Isa> all_isas() { return kIsas; }

}  // namespace colibri::compute

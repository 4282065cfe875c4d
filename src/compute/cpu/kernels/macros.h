// Compiler hints of the kernels.
#pragma once

#define COLIBRI_INLINE inline __attribute__((always_inline))

// Register tiles are small arrays: only full unrolling lets the compiler keep them in registers.
#if defined(__clang__)
#define COLIBRI_UNROLL _Pragma("unroll")
#else
#define COLIBRI_UNROLL _Pragma("GCC unroll 16")
#endif

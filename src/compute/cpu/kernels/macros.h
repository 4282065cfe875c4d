// Compiler hints of the kernels.
#pragma once

#define COLIBRI_INLINE inline __attribute__((always_inline))

// Register tiles are small arrays: only full unrolling lets the compiler keep them in registers.
#if defined(__clang__)
#define COLIBRI_UNROLL _Pragma("unroll")
#else
#define COLIBRI_UNROLL _Pragma("GCC unroll 16")
#endif

// Rows of a level's largest tile. Sanitizers take minutes to compile large tiles, so their builds set a limit; tiles of
// other sizes compute the same.
#ifdef COLIBRI_TILE_ROWS_LIMIT
#define COLIBRI_TILE_ROWS(rows) ((rows) < COLIBRI_TILE_ROWS_LIMIT ? (rows) : COLIBRI_TILE_ROWS_LIMIT)
#else
#define COLIBRI_TILE_ROWS(rows) (rows)
#endif

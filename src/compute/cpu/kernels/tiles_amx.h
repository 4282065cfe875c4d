// The tile registers of AMX int8. See tiles_emulated.h for what each function means.
//
// Assembly, because the compilers' intrinsics do not say what memory they read (g++ 12 takes the operand of
// ldtileconfig for 8 bytes and drops the stores behind them; its tile loads may move across stores), and cannot take
// the number of a tile from a template.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/tile_config.h"

namespace colibri::compute {
namespace {

COLIBRI_INLINE void tile_configure(const TileConfig& config) { __asm__ volatile("ldtilecfg %0" : : "m"(config)); }
COLIBRI_INLINE void tile_release() { __asm__ volatile("tilerelease"); }

template <int kTile>
COLIBRI_INLINE void tile_zero() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile>
COLIBRI_INLINE void tile_load(const void* p, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
COLIBRI_INLINE void tile_store(void* p, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(stride), "i"(kTile) : "memory");
}
template <bool kSigned, int kSums, int kRows, int kWeights>
COLIBRI_INLINE void tile_dot() {
  if constexpr (kSigned) {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kWeights));
  } else {
    __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kWeights));
  }
}

}  // namespace
}  // namespace colibri::compute

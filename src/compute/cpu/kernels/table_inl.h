// The KernelTable of the translation unit that includes this after its vec_*.h.
#pragma once

#include "compute/cpu/kernels/attention_inl.h"
#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/router_inl.h"
#include "compute/cpu/kernels/rows_inl.h"
#include "compute/cpu/kernels/tile_inl.h"

namespace colibri::compute {
namespace {

static_assert(kTileRows <= kMaxTileRows);

constexpr KernelTable kTable = {
    kTileRows,    {tile<F32Weights>, tile<F16Weights>, tile<BF16Weights>, tile<Q8Weights>},
    attention,    rms_norm,
    add_row,      clamp,
    silu_mul,     scale_by_sigmoid,
    rope,         route,
    weighted_sum,
};

}  // namespace
}  // namespace colibri::compute

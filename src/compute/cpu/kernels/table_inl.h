// The KernelTable of the translation unit that includes this after its vec_*.h.
#pragma once

#include "compute/cpu/kernels/attention_inl.h"
#include "compute/cpu/kernels/expanded_inl.h"
#include "compute/cpu/kernels/index_inl.h"
#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/kv_inl.h"
#include "compute/cpu/kernels/product_inl.h"
#include "compute/cpu/kernels/quantise_inl.h"
#include "compute/cpu/kernels/router_inl.h"
#include "compute/cpu/kernels/rows_inl.h"
#include "compute/cpu/kernels/streams_inl.h"
#include "compute/cpu/kernels/tile_inl.h"

namespace colibri::compute {
namespace {

static_assert(kTileRows <= kMaxTileRows);

constexpr KernelTable kTable = {
    kTileRows,
    pack_tile,
    {tile<F32Weights>, tile<F16Weights>, tile<BF16Weights>},
    {product<Q8_0>, product<Q4_0>, product<Q4_1>, product<Q5_0>, product<Q5_1>, product<MXFP4>, product<Q4_K>,
     product<Q5_K>, product<Q6_K>, product<IQ4_NL>, product<IQ4_XS>, product<Q2_K>, product<Q3_K>, product<Codes4>,
     product<Codes8>, expanded_product},
    quantise,
    append_kv,
    attention,
    index_scores,
    rms_norm,
    add_row,
    clamp,
    activate,
    scale_by_sigmoid,
    rope,
    route,
    add_scaled,
    layer_norm,
    scale,
    multiply_row,
    soft_cap,
    stream_weights,
    collapse_streams,
    expand_streams,
};

}  // namespace
}  // namespace colibri::compute

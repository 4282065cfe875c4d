// The kernels in AVX-512 with matrix tiles (AMX int8) for products of many rows.
#include "compute/cpu/kernels/ints_avx512.h"
// The vectors come first: everything below is written over them.
#include "compute/cpu/kernels/table_inl.h"
#include "compute/cpu/kernels/tiles_amx.h"
// And the tiles before what is written over them.
#include "compute/cpu/kernels/amx_inl.h"

namespace colibri::compute {
const KernelTable kAmxKernels = with_tiles(kTable);
}

// The products of the level amx with emulated tiles: for tests. Has nothing else.
#include "compute/cpu/kernels/ints_avx512.h"
// The vectors and the tiles come first: everything below is written over them.
#include "compute/cpu/kernels/product_inl.h"
#include "compute/cpu/kernels/tiles_emulated.h"
// (kept apart so that the order stays)
#include "compute/cpu/kernels/amx_inl.h"

namespace colibri::compute {
extern const KernelTable kAmxEmulatedKernels;
const KernelTable kAmxEmulatedKernels = with_tiles({});
}  // namespace colibri::compute

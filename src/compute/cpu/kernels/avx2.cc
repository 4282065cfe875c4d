// The kernels in AVX2, FMA and F16C.
#include "compute/cpu/kernels/dots_avx2.h"
// The vectors come first: everything below is written over them.
#include "compute/cpu/kernels/table_inl.h"

namespace colibri::compute {
const KernelTable kAvx2Kernels = kTable;
}

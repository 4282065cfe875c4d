// The kernels in AVX2, FMA and F16C.
#include "compute/cpu/kernels/vec_avx2.h"
// The vector type comes first: everything below is written over it.
#include "compute/cpu/kernels/table_inl.h"

namespace colibri::compute {
const KernelTable kAvx2Kernels = kTable;
}

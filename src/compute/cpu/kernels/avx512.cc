// The kernels in AVX-512 F, BW, DQ and VL.
#include "compute/cpu/kernels/vec_avx512.h"
// The vector type comes first: everything below is written over it.
#include "compute/cpu/kernels/table_inl.h"

namespace colibri::compute {
const KernelTable kAvx512Kernels = kTable;
}

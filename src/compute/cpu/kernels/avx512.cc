// The kernels in AVX-512 F, BW, DQ and VL.
#include "compute/cpu/kernels/ints_avx512.h"
// The vectors come first: everything below is written over them.
#include "compute/cpu/kernels/table_inl.h"

namespace colibri::compute {
const KernelTable kAvx512Kernels = kTable;
}

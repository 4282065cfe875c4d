// The kernels in AVX2, FMA and F16C, with the dot products of AVX-VNNI.
#include "compute/cpu/kernels/dots_avxvnni.h"
// The vectors come first: everything below is written over them.
#include "compute/cpu/kernels/table_inl.h"

namespace colibri::compute {
const KernelTable kAvxVnniKernels = kTable;
}

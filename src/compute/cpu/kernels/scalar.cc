// The kernels in plain C.
#include "compute/cpu/kernels/ints_scalar.h"
// The vectors come first: everything below is written over them.
#include "compute/cpu/kernels/table_inl.h"

namespace colibri::compute {
const KernelTable kScalarKernels = kTable;
}

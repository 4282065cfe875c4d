// The kernels in plain C.
#include "compute/cpu/kernels/vec_scalar.h"
// The vector type comes first: everything below is written over it.
#include "compute/cpu/kernels/table_inl.h"

namespace colibri::compute {
const KernelTable kScalarKernels = kTable;
}

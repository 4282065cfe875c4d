// The kernels in SSE4.1.
#include "compute/cpu/kernels/vec_sse4.h"
// The vector type comes first: everything below is written over it.
#include "compute/cpu/kernels/table_inl.h"

namespace colibri::compute {
const KernelTable kSse4Kernels = kTable;
}

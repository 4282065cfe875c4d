// The kernels in SSE4.1.
#include "compute/cpu/kernels/ints_sse4.h"
// The vectors come first: everything below is written over them.
#include "compute/cpu/kernels/table_inl.h"

namespace colibri::compute {
const KernelTable kSse4Kernels = kTable;
}

// The kernels of the recurrent mixers in SSE 4.1.
#include "compute/cpu/kernels/vec_sse4.h"
// The vectors come first: everything below is written over them.
#include "compute/cpu/kernels/recurrent_inl.h"

namespace colibri::compute {
const RecurrentTable kSse4RecurrentKernels = kRecurrentTable;
}

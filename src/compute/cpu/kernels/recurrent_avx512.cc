// The kernels of the recurrent mixers in AVX-512.
#include "compute/cpu/kernels/vec_avx512.h"
// The vectors come first: everything below is written over them.
#include "compute/cpu/kernels/recurrent_inl.h"

namespace colibri::compute {
const RecurrentTable kAvx512RecurrentKernels = kRecurrentTable;
}

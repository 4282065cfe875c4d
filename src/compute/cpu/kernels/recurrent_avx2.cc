// The kernels of the recurrent mixers in AVX2, FMA and F16C.
#include "compute/cpu/kernels/vec_avx2.h"
// The vectors come first: everything below is written over them.
#include "compute/cpu/kernels/recurrent_inl.h"

namespace colibri::compute {
const RecurrentTable kAvx2RecurrentKernels = kRecurrentTable;
}

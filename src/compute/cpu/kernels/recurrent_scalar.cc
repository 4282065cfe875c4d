// The kernels of the recurrent mixers in plain C.
#include "compute/cpu/kernels/vec_scalar.h"
// The vectors come first: everything below is written over them.
#include "compute/cpu/kernels/recurrent_inl.h"

namespace colibri::compute {
const RecurrentTable kScalarRecurrentKernels = kRecurrentTable;
}

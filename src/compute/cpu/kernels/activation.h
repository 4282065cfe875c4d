// Activation: what stands between the two halves of an MLP, out = f(gate, up), element by element.
//
// Read by the kernels of every instruction set, so: plain structs, nothing that a linker could merge.
#pragma once

#include <stdint.h>

namespace colibri::compute {

enum class ActivationKind : uint8_t {
  kSilu,           ///< silu(gate) * up
  kGeluTanh,       ///< gelu(gate) * up, gelu with tanh: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) (Gemma)
  kRelu2,          ///< relu(gate)^2; there is no up (Nemotron-H)
  kSiluClamped,    ///< silu(g) * u, where g = min(gate, limit) and u = up clamped to [-limit, limit] (DeepSeek-V4)
  kSwigluClamped,  ///< g * sigmoid(alpha * g) * (u + 1), with the same g and u (gpt-oss)
};

struct Activation {
  ActivationKind kind = ActivationKind::kSilu;
  float limit = 0.0f;  ///< of the clamped kinds, above 0
  float alpha = 1.0f;  ///< kSwigluClamped
};

}  // namespace colibri::compute

#include "tensor/tensor.h"

namespace colibri {

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < n_; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string((*this)[i]);
  }
  return text + "]";
}

}  // namespace colibri

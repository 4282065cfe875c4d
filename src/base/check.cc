#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace colibri {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "colibri: internal error at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace colibri

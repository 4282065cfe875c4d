// The instruction set levels as objects: name, whether this CPU has it, and the kernels it runs. Best first.
//
// A level without kernels of its own runs those of the next lower one. The array stands in kernels/levels_*.cc, one
// file per processor family. Detection happens once (platform/cpu.h).
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/recurrent_table.h"
#include "platform/cpu.h"

namespace colibri::compute {

struct Isa {
  const char* name;
  bool (*available)(const platform::CpuFeatures& features);
  bool (*permitted)();         ///< the operating system lets us use it, asked when first needed; null: no need to ask
  const KernelTable* kernels;  ///< null where this build has none that could run
  bool own_kernels;            ///< "auto" chooses among these
  const RecurrentTable* recurrent;  ///< never null where kernels is not
};

/// Every level that --isa accepts, best first.
std::span<const Isa> all_isas();
bool is_available(const Isa& isa);
/// The level of that name, or for "auto" the best with its own kernels. kUsage when unknown or not on this CPU.
Result<const Isa*> find_isa(const std::string& name);

}  // namespace colibri::compute

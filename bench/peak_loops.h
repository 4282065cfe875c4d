// The arithmetic peaks of a core, measured: loops that do nothing but the multiply-adds of one instruction set level.
//
// peaks.cc prints them, kernels_benchmark.cc divides by them. One file per processor family implements the table.
// Thread-safety: the loops share nothing; several threads may run the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace colibri::bench {

enum class Arithmetic : uint8_t {
  kInt8,  ///< products of 8-bit numbers, summed in 32 bits
  kF32,   ///< multiply and add, fused where the level has it
};

struct PeakLoop {
  const char* isa;  ///< a level's name, as --isa takes it
  Arithmetic arithmetic;
  const char* instructions;     ///< what the loop is made of
  double operations_per_round;  ///< a multiply and an add count as two
  void (*run)(int64_t rounds);
};

/// The loops that this CPU can run, best level first. Asks the system for what needs permission.
std::span<const PeakLoop> peak_loops();

/// Reads every byte of [data, data + size_bytes), as wide as this CPU can; the result keeps the reads alive.
/// REQUIRES: data is 64-byte aligned, size_bytes a multiple of 4096.
uint64_t read_all(const std::byte* data, int64_t size_bytes);

}  // namespace colibri::bench

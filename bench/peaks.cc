// What this machine can do at best: read bandwidth and arithmetic of each instruction set level, as JSON on stdout.
//
//   peaks [GIBIBYTES]     of memory to read, default 2: much more than the last level of cache
//
// bench/run.py divides by these numbers. The format is documented in bench/README.md.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "peak_timing.h"
#include "platform/cpu.h"
#include "platform/memory.h"

namespace colibri::bench {
namespace {

/// Every page written with something, so that none is the system's page of zeros.
Result<platform::Arena> filled_memory(int64_t size_bytes) {
  COLIBRI_ASSIGN(platform::Arena memory, platform::Arena::allocate(size_bytes));
  std::memset(memory.data(), 0x5a, static_cast<size_t>(size_bytes));
  return memory;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", value);
  return text;
}

std::string loop_json(const PeakLoop& loop, int threads) {
  return std::string("    {\"isa\": \"") + loop.isa + "\", \"arithmetic\": \"" +
         (loop.arithmetic == Arithmetic::kInt8 ? "int8" : "f32") + "\", \"instructions\": \"" + loop.instructions +
         "\", \"threads\": " + std::to_string(threads) +
         ", \"gops\": " + number(peak_operations_per_second(loop, threads) / 1e9) + "}";
}

std::string bandwidth_json(const platform::Arena& memory, int threads) {
  return "    {\"threads\": " + std::to_string(threads) + ", \"gigabytes_per_second\": " +
         number(read_bytes_per_second({memory.data(), static_cast<size_t>(memory.size_bytes())}, threads) / 1e9) + "}";
}

std::string joined(const std::string& list, const std::string& item) {
  return list.empty() ? item : list + ",\n" + item;
}

int print_peaks(int64_t size_bytes) {
  const auto memory = filled_memory(size_bytes);
  if (!memory.ok()) {
    std::fprintf(stderr, "peaks: %s\n", memory.error().message.c_str());
    return 1;
  }
  std::string bandwidth, arithmetic;
  for (int threads = 1; threads <= platform::usable_cores(); threads *= 2) {
    bandwidth = joined(bandwidth, bandwidth_json(*memory, threads));
    for (const PeakLoop& loop : peak_loops()) arithmetic = joined(arithmetic, loop_json(loop, threads));
  }
  std::printf("{\n  \"read_bandwidth\": [\n%s\n  ],\n  \"arithmetic\": [\n%s\n  ]\n}\n", bandwidth.c_str(),
              arithmetic.c_str());
  return 0;
}

}  // namespace
}  // namespace colibri::bench

int main(int argc, char** argv) {
  const int64_t gibibytes = argc > 1 ? std::strtoll(argv[1], nullptr, 10) : 2;
  if (argc > 2 || gibibytes < 1) {
    std::fprintf(stderr, "usage: peaks [GIBIBYTES]\n");
    return 2;
  }
  return colibri::bench::print_peaks(gibibytes << 30);
}

#include "process.h"

#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace colibri::soak {
namespace {

int count_entries(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<int>(std::distance(begin(entries), end(entries)));
}

int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

}  // namespace

Holdings count_holdings() {
  malloc_trim(0);
  return {resident_bytes(), static_cast<int64_t>(mallinfo2().uordblks), count_entries("/proc/self/fd"),
          count_entries("/proc/self/task")};
}

void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

bool memory_is_a_sanitizers() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return true;
#endif
#endif
  return false;
}

}  // namespace colibri::soak

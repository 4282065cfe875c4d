#include "platform/system.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>

#include "platform/posix/cgroup.h"

namespace colibri::platform {
namespace {

// The value of the first line "KEY   : VALUE" of /proc/cpuinfo.
std::string cpuinfo(const std::string& key) {
  const std::string text = read_system_file("/proc/cpuinfo");
  const size_t line = text.find(key + "\t");
  const size_t colon = text.find(": ", line);
  const size_t end = text.find('\n', line);
  if (line == std::string::npos || colon == std::string::npos || colon > end) return {};
  return text.substr(colon + 2, end - colon - 2);
}

int64_t limit_of(decltype(RLIMIT_NOFILE) which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(limit.rlim_cur);
}

std::string kernel() {
  utsname name{};
  return ::uname(&name) == 0 ? std::string(name.sysname) + " " + name.release : std::string();
}

}  // namespace

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): the header says so
  return value != nullptr ? value : "";
}

std::string chosen_word(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']');
  return open == std::string::npos || close == std::string::npos || close < open
             ? std::string()
             : text.substr(open + 1, close - open - 1);
}

SystemFacts system_facts() {
  const std::string memory = read_system_file("/proc/meminfo");
  SystemFacts facts;
  facts.kernel = kernel();
  facts.cpu_model = cpuinfo("model name");
  facts.online_cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  facts.total_memory = find_number(memory, "MemTotal:").value_or(0) * 1024;
  facts.swap = find_number(memory, "SwapTotal:").value_or(0) * 1024;
  facts.huge_pages = chosen_word(read_system_file("/sys/kernel/mm/transparent_hugepage/enabled"));
  facts.open_files = limit_of(RLIMIT_NOFILE);
  facts.locked_memory = limit_of(RLIMIT_MEMLOCK);
  return facts;
}

}  // namespace colibri::platform

#include "platform/memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "platform/posix/cgroup.h"

namespace colibri::platform {
namespace {

constexpr int64_t kPage = 4096, kHugePage = int64_t{2} << 20;

std::byte* map(int64_t bytes) {
  void* data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

void unmap(std::byte* data, int64_t bytes) {
  if (bytes > 0) ::munmap(data, static_cast<size_t>(bytes));
}

// Maps `bytes` from a huge page border on, so that all but a rest at the end can be huge. The mapping itself is not
// rounded up to huge pages: what is resident is what was asked for.
std::byte* map_huge(int64_t bytes) {
  std::byte* data = map(bytes + kHugePage);
  if (data == nullptr) return nullptr;
  const int64_t over = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % kHugePage);
  const int64_t head = over == 0 ? 0 : kHugePage - over;
  unmap(data, head);
  unmap(data + head + bytes, kHugePage - head);
  ::madvise(data + head, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a wish: without it only speed is lost
  return data + head;
}

// Makes every page resident; false when the system refuses the memory.
bool populate(std::byte* data, int64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(data, static_cast<size_t>(bytes), MADV_POPULATE_WRITE) == 0) return true;
  if (errno == ENOMEM) return false;
#endif
  for (int64_t at = 0; at < bytes; at += kPage)
    std::atomic_ref(reinterpret_cast<unsigned char&>(data[at])).fetch_or(0);  // others may be writing there
  return true;
}

Error no_memory(int64_t bytes, int error) {
  std::string message = "cannot allocate " + std::to_string(bytes) +
                        " bytes: " + std::generic_category().message(error) + "; " +
                        std::to_string(available_memory_bytes()) + " bytes are available";
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    message += ", the limit on address space is " + std::to_string(limit.rlim_cur) + " (ulimit -v)";
  return {ErrorCode::kDoesNotFit, std::move(message)};
}

}  // namespace

Result<Arena> Arena::allocate(int64_t bytes, Pages pages) {
  COLIBRI_CHECK(bytes >= 0);
  Arena arena;
  if (bytes == 0) return arena;
  if (bytes > std::numeric_limits<int64_t>::max() - 2 * kHugePage) return no_memory(bytes, ENOMEM);
  const bool huge = bytes >= 2 * kHugePage;
  const int64_t mapped = (bytes + kPage - 1) / kPage * kPage;
  arena.data_ = huge ? map_huge(mapped) : map(mapped);
  if (arena.data_ == nullptr) return no_memory(bytes, errno);
  arena.size_bytes_ = mapped;
  if (pages == Pages::kNow) COLIBRI_TRY(arena.make_resident(0, mapped));
  return arena;
}

Status Arena::make_resident(int64_t first, int64_t bytes) {
  COLIBRI_CHECK(first >= 0 && bytes >= 0 && bytes <= size_bytes_ - first && first % kPage == 0);
  return populate(data_ + first, bytes) ? Status() : Status(no_memory(bytes, ENOMEM));
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      used_bytes_(std::exchange(other.used_bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(used_bytes_, other.used_bytes_);
  return *this;
}

Arena::~Arena() { unmap(data_, size_bytes_); }

std::byte* Arena::take(int64_t bytes) {
  COLIBRI_CHECK(bytes >= 0 && bytes <= size_bytes_ - used_bytes_);
  std::byte* start = data_ + used_bytes_;
  used_bytes_ = std::min(size_bytes_, used_bytes_ + aligned_bytes(bytes));
  return start;
}

void discard(std::byte* data, int64_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const int64_t head = static_cast<int64_t>((kPage - address % kPage) % kPage);
  const int64_t whole = (bytes - head) / kPage * kPage;
  if (whole > 0) ::madvise(data + head, static_cast<size_t>(whole), MADV_DONTNEED);
}

int64_t rss_bytes() {
  // /proc/self/statm is exact enough and quick; "VmRSS" would be the same number.
  const std::string statm = read_system_file("/proc/self/statm");
  const size_t resident = statm.find(' ');
  return resident == std::string::npos ? 0 : std::atoll(statm.c_str() + resident) * ::sysconf(_SC_PAGESIZE);
}

void trim_heap() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

int64_t peak_rss_bytes() {
  // VmHWM rather than getrusage, whose maximum survives exec and may be that of the program before.
  if (const auto kib = find_number(read_system_file("/proc/self/status"), "VmHWM:")) return *kib * 1024;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

int64_t memory_headroom_bytes() {
  static const CgroupMemory group(own_cgroup_folders("memory"));
  char buffer[4096];
  const auto kib = find_number(read_system_file("/proc/meminfo", buffer), "MemAvailable:");
  const int64_t machine = kib ? *kib * 1024 : std::numeric_limits<int64_t>::max();
  return std::min(machine, group.headroom().value_or(machine));
}

int64_t available_memory_bytes() { return std::max<int64_t>(0, memory_headroom_bytes()); }

}  // namespace colibri::platform

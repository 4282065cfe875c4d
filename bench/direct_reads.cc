// How fast the disk gives the experts of a model: direct reads of their slices, as JSON on stdout.
//
//   direct_reads FILE DEPTH < SLICES     a line of SLICES is the offset and the bytes of one read; DEPTH at a time
//
// In the order of the lines, again from the first when all are read, for about a second and a half. Then the time of
// one small read when nothing else is under way. bench/streaming.py divides by these numbers; bytes are those asked
// for, not what alignment adds. Plain pread in threads: nothing of Colibri may be in what it is compared with.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kBlock = 4096;
constexpr std::chrono::milliseconds kLongest(1500), kLongestSmall(500);
constexpr size_t kSmallReads = 200;

struct Slice {
  int64_t offset = 0, bytes = 0;
  int64_t first_block() const { return offset / kBlock * kBlock; }
  int64_t aligned_bytes() const { return (offset + bytes + kBlock - 1) / kBlock * kBlock - first_block(); }
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "direct_reads: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A buffer of one thread.
class Reader {
 public:
  Reader(int fd, int64_t file_bytes, int64_t most_bytes)
      : fd_(fd), file_bytes_(file_bytes), memory_(std::aligned_alloc(kBlock, static_cast<size_t>(most_bytes))) {
    if (!memory_) fail("memory");
    std::memset(memory_.get(), 1, static_cast<size_t>(most_bytes));
  }

  void read(const Slice& slice) const {
    const int64_t at = slice.first_block(), end = std::min(at + slice.aligned_bytes(), file_bytes_);
    for (int64_t done = 0; at + done < end;) {
      const ssize_t n = ::pread(fd_, static_cast<char*>(memory_.get()) + done,
                                static_cast<size_t>(slice.aligned_bytes() - done), at + done);
      if (n > 0) done += n;
      if (n == 0 || (n < 0 && errno != EINTR)) fail("read");
    }
  }

 private:
  int fd_;
  int64_t file_bytes_;
  std::unique_ptr<void, Free> memory_;
};

// Bytes per second with `readers.size()` reads under way.
double read_all(const std::vector<Reader>& readers, const std::vector<Slice>& slices) {
  std::atomic<size_t> next{0};
  std::atomic<int64_t> bytes{0};
  const auto start = Clock::now();
  const auto work = [&](const Reader& reader) {
    while (Clock::now() - start < kLongest) {
      const Slice& slice = slices[next++ % slices.size()];
      reader.read(slice);
      bytes += slice.bytes;
    }
  };
  std::vector<std::thread> threads;
  for (const Reader& reader : readers) threads.emplace_back(work, std::cref(reader));
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(bytes) / seconds_since(start);
}

// Median of reads of one block, one at a time.
double latency(const Reader& reader, const std::vector<Slice>& slices) {
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < kSmallReads && (times.empty() || Clock::now() - start < kLongestSmall)) {
    const auto begin = Clock::now();
    // from the end, where the reads before were not, and inside the slice, where none of them began
    const Slice& slice = slices[slices.size() - 1 - times.size() % slices.size()];
    reader.read({slice.offset + slice.bytes / 2, 1});
    times.push_back(seconds_since(begin));
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

int measure(const char* path, int depth) {
  std::vector<Slice> slices;
  for (Slice slice; std::cin >> slice.offset >> slice.bytes;) slices.push_back(slice);
  int64_t most = 0;
  for (const Slice& slice : slices) most = std::max(most, slice.aligned_bytes());
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0) fail(path);
  if (most == 0) return std::fprintf(stderr, "direct_reads: no slices on standard input\n"), 2;
  std::vector<Reader> readers;
  for (int i = 0; i < depth; ++i) readers.emplace_back(fd, status.st_size, most);
  const double per_second = read_all(readers, slices);
  std::printf("{\"bytes_per_second\": %.0f, \"latency_seconds\": %.6f, \"depth\": %d}\n", per_second,
              latency(readers[0], slices), depth);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int depth = argc == 3 ? std::atoi(argv[2]) : 0;
  if (depth < 1 || depth > 1024) {
    std::fprintf(stderr, "usage: direct_reads FILE DEPTH < SLICES\n");
    return 2;
  }
  return measure(argv[1], depth);
}

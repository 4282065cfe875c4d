#include "platform/disk.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "platform/file.h"
#include "platform/memory.h"

namespace colibri::platform {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kBlock = 4096;  // what places, sizes and memory of direct reads must be multiples of
constexpr int64_t kSequentialPiece = 4 << 20, kRandomPiece = 1 << 20;
constexpr int64_t kMostBytes = 256 << 20;  // of each kind
constexpr std::chrono::milliseconds kLongest(800);
constexpr std::chrono::milliseconds kLatencyLongest(50);
constexpr int64_t kLatencyReads = 33;
constexpr int kDraws = 8;  // places that are looked at for one that is not in memory

int64_t round_up(int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

// A file with a descriptor of its own, since O_DIRECT and advice belong to the descriptor.
class ProbeFile {
 public:
  static Result<std::unique_ptr<ProbeFile>> open(const std::string& path, bool direct) {
    COLIBRI_ASSIGN(const File named, File::open(path));  // says what is wrong with a path
    auto file = std::make_unique<ProbeFile>(path, named.size_bytes());
    if (direct && file->open_descriptor(O_DIRECT) && file->direct_reads_work()) file->direct_ = true;
    if (!file->direct_ && !file->open_descriptor(0)) return file->read_error(0, errno);
    // Pieces are read at odd places: the system should read what was asked for and nothing ahead.
    if (!file->direct_) ::posix_fadvise(file->fd_, 0, 0, POSIX_FADV_RANDOM);
    return file;
  }
  ProbeFile(std::string path, int64_t size_bytes) : path_(std::move(path)), size_bytes_(size_bytes) {}
  ~ProbeFile() { close_descriptor(); }
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size_bytes() const { return size_bytes_; }
  bool direct() const { return direct_; }

  // Bytes read; less than asked for where the file ends.
  Result<int64_t> read(std::byte* data, int64_t bytes, int64_t offset) const {
    const ssize_t n = read_once(data, bytes, offset);
    if (n > 0) return n;
    return read_error(offset, n < 0 ? errno : EIO);
  }

  // How much of a range the page cache holds, from a look at a few places. 0 where the system does not tell.
  int64_t cached_bytes(int64_t offset, int64_t bytes) const {
    constexpr int64_t kLooks = 8;
    const int64_t step = std::max(kBlock, bytes / kLooks);
    int64_t looks = 0, hits = 0;
    for (int64_t at = 0; at < bytes && offset + at < size_bytes_; at += step, ++looks) hits += is_cached(offset + at);
    return looks == 0 ? 0 : bytes / looks * hits;
  }
  void forget(int64_t offset, int64_t bytes) const { ::posix_fadvise(fd_, offset, bytes, POSIX_FADV_DONTNEED); }

 private:
  bool open_descriptor(int flags) {
    close_descriptor();
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | flags);
    return fd_ >= 0;
  }
  void close_descriptor() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // Some file systems open with O_DIRECT and refuse the read.
  bool direct_reads_work() const {
    alignas(kBlock) std::byte block[kBlock];
    return size_bytes_ == 0 || read_once(block, kBlock, 0) > 0;
  }
  ssize_t read_once(std::byte* data, int64_t bytes, int64_t offset) const {
    ssize_t n;
    do n = ::pread(fd_, data, static_cast<size_t>(bytes), offset);
    while (n < 0 && errno == EINTR);
    return n;
  }
  bool is_cached(int64_t offset) const {
    std::byte byte;
    const iovec one{&byte, 1};
    return ::preadv2(fd_, &one, 1, offset, RWF_NOWAIT) == 1;
  }
  Error read_error(int64_t offset, int error) const {
    return {ErrorCode::kIo, path_ + ": cannot read at offset " + std::to_string(offset) + ": " +
                                std::generic_category().message(error)};
  }

  std::string path_;
  int64_t size_bytes_;
  int fd_ = -1;
  bool direct_ = false;
};

struct Piece {
  const ProbeFile* file = nullptr;
  int64_t offset = 0, bytes = 0;  // multiples of kBlock
  int64_t cached_bytes = 0;
};

struct Limits {
  int64_t piece_bytes;
  int in_flight;
  int64_t most_bytes;
  int64_t most_pieces;
  Clock::duration longest;
};

struct Measured {
  int64_t bytes = 0, cached_bytes = 0;
  double per_second = 0;
  std::vector<double> seconds;  // of each piece
};

// Reads the pieces next(0), next(1), ... with several threads until one of the limits is reached.
class PieceReader {
 public:
  PieceReader(std::function<Piece(int64_t)> next, const Limits& limits) : next_(std::move(next)), limits_(limits) {}

  Result<Measured> run() {
    const int64_t buffer_bytes = round_up(limits_.piece_bytes);
    COLIBRI_ASSIGN(const Arena buffers, Arena::allocate(buffer_bytes * limits_.in_flight));
    start_ = Clock::now();
    {
      std::vector<std::jthread> others;  // joined here
      for (int i = 1; i < limits_.in_flight; ++i)
        others.emplace_back([this, data = buffers.data() + buffer_bytes * i] { read_until_done(data); });
      read_until_done(buffers.data());
    }
    const double spent = seconds_since(start_);
    if (error_) return *error_;
    measured_.per_second = static_cast<double>(measured_.bytes) / std::max(spent, 1e-9);
    return std::move(measured_);
  }

 private:
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  void read_until_done(std::byte* data) {
    for (bool more = true; more;) {
      const int64_t number = taken_.fetch_add(1, std::memory_order_relaxed);
      if (number > 0 && (number >= limits_.most_pieces || number * limits_.piece_bytes >= limits_.most_bytes)) return;
      const Piece piece = next_(number);
      const Clock::time_point start = Clock::now();
      const Result<int64_t> bytes = piece.file->read(data, piece.bytes, piece.offset);
      const double seconds = seconds_since(start);
      if (!piece.file->direct() && piece.cached_bytes == 0) piece.file->forget(piece.offset, piece.bytes);
      more = note(piece, bytes, seconds);
    }
  }

  // False when it is time to stop.
  bool note(const Piece& piece, const Result<int64_t>& bytes, double seconds) {
    const std::lock_guard lock(mutex_);
    if (!bytes.ok() && !error_) error_ = bytes.error();
    if (error_) return false;
    measured_.bytes += *bytes;
    measured_.cached_bytes += std::min(piece.cached_bytes, *bytes);
    measured_.seconds.push_back(seconds);
    return Clock::now() - start_ < limits_.longest;
  }

  std::function<Piece(int64_t)> next_;
  Limits limits_;
  Clock::time_point start_;
  std::atomic<int64_t> taken_{0};
  std::mutex mutex_;
  Measured measured_;           // guarded by mutex_
  std::optional<Error> error_;  // guarded by mutex_
};

// Pieces at places of some ranges that follow no order, and nobody's cache knows from the last time.
class RandomPlaces {
 public:
  explicit RandomPlaces(int64_t piece_bytes)
      : piece_bytes_(piece_bytes), seed_(static_cast<uint64_t>(Clock::now().time_since_epoch().count())) {}

  void add(const ProbeFile& file, int64_t offset, int64_t bytes) {
    if (bytes == 0) return;
    n_places_ += std::max<int64_t>(1, bytes / piece_bytes_);
    ranges_.push_back({&file, offset, bytes, n_places_});
  }
  bool empty() const { return ranges_.empty(); }

  // Of several places the one of which memory holds least; any place where the cache is not asked.
  Piece operator()(int64_t number) const {
    Piece best;
    for (int draw = 0; draw < kDraws; ++draw) {
      Piece piece = place(mix(seed_ + static_cast<uint64_t>(number * kDraws + draw)));
      if (piece.file->direct()) return piece;
      piece.cached_bytes = piece.file->cached_bytes(piece.offset, piece.bytes);
      if (piece.cached_bytes == 0) return piece;
      if (best.file == nullptr || piece.cached_bytes < best.cached_bytes) best = piece;
    }
    return best;
  }

 private:
  struct Range {
    const ProbeFile* file;
    int64_t offset, bytes;
    int64_t places_up_to_here;
  };

  static uint64_t mix(uint64_t x) {  // the finaliser of splitmix64
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  Piece place(uint64_t random) const {
    const auto place = static_cast<int64_t>(random % static_cast<uint64_t>(n_places_));
    const auto range = std::upper_bound(ranges_.begin(), ranges_.end(), place,
                                        [](int64_t p, const Range& r) { return p < r.places_up_to_here; });
    const int64_t within = range->places_up_to_here - 1 - place;  // counted from the range's end
    const int64_t offset = (range->offset + within * piece_bytes_) / kBlock * kBlock;
    return {range->file, offset, round_up(std::min(piece_bytes_, range->bytes)), 0};
  }

  int64_t piece_bytes_;
  uint64_t seed_;
  std::vector<Range> ranges_;
  int64_t n_places_ = 0;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The files of ranges, each opened once.
class ProbeFiles {
 public:
  explicit ProbeFiles(bool direct) : direct_(direct) {}
  Result<const ProbeFile*> file(const std::string& path) {
    if (files_.empty() || files_.back()->path() != path) {
      for (const auto& file : files_)
        if (file->path() == path) return file.get();
      COLIBRI_ASSIGN(auto file, ProbeFile::open(path, direct_));
      files_.push_back(std::move(file));
    }
    return files_.back().get();
  }
  // Fills in pieces of the ranges.
  Status add(std::span<const FileRange> ranges, RandomPlaces& places) {
    for (const FileRange& range : ranges) {
      COLIBRI_ASSIGN(const ProbeFile* found, file(range.path));
      if (range.offset < 0 || range.bytes < 0 || range.offset > found->size_bytes() - range.bytes)
        return Error{ErrorCode::kUsage, range.path + ": " + std::to_string(range.bytes) + " bytes at offset " +
                                            std::to_string(range.offset) + " leave the file, which has " +
                                            std::to_string(found->size_bytes())};
      places.add(*found, range.offset, range.bytes);
    }
    if (!places.empty()) return {};
    const std::string what = ranges.empty() ? "no file" : ranges.front().path;
    return Error{ErrorCode::kUsage, what + ": is empty, there is nothing to read"};
  }
  // All of them; a model's files lie in one file system.
  bool direct() const {
    return std::all_of(files_.begin(), files_.end(), [](const auto& file) { return file->direct(); });
  }

 private:
  bool direct_;
  std::vector<std::unique_ptr<ProbeFile>> files_;
};

Result<double> measure_latency(std::span<const FileRange> ranges) {
  ProbeFiles files(true);
  RandomPlaces places(kBlock);
  COLIBRI_TRY(files.add(ranges, places));
  COLIBRI_ASSIGN(Measured measured, PieceReader(places, {kBlock, 1, kMostBytes, kLatencyReads, kLatencyLongest}).run());
  return median(std::move(measured.seconds));
}

}  // namespace

Result<DiskSpeed> measure_disk(const std::string& path) {
  COLIBRI_ASSIGN(const auto file, ProbeFile::open(path, true));
  const int64_t size = file->size_bytes();
  if (size == 0) return Error{ErrorCode::kUsage, path + ": is empty, there is nothing to read"};
  if (!file->direct()) file->forget(0, 0);  // all of it: as little cache as can be
  const int64_t pieces = (size + kSequentialPiece - 1) / kSequentialPiece;
  const auto in_order = [&](int64_t i) {
    return Piece{file.get(), i % pieces * kSequentialPiece, kSequentialPiece, 0};
  };
  const int64_t most = std::min(kMostBytes, size);
  COLIBRI_ASSIGN(const Measured sequential,
                 PieceReader(in_order, {kSequentialPiece, 1, most, kMostBytes, kLongest}).run());
  RandomPlaces places(kRandomPiece);
  places.add(*file, 0, size);
  COLIBRI_ASSIGN(const Measured random, PieceReader(places, {kRandomPiece, 1, most, kMostBytes, kLongest}).run());
  return DiskSpeed{file->direct(), sequential.bytes + random.bytes, sequential.per_second, random.per_second};
}

Result<ReadSpeed> measure_reads(std::span<const FileRange> ranges, const ReadPattern& pattern) {
  COLIBRI_CHECK(pattern.piece_bytes > 0 && pattern.in_flight >= 1 && pattern.in_flight <= 64);
  const int64_t piece = round_up(pattern.piece_bytes);
  ProbeFiles files(pattern.direct);
  RandomPlaces places(piece);
  COLIBRI_TRY(files.add(ranges, places));
  COLIBRI_ASSIGN(
      const Measured measured,
      PieceReader(places, {piece, pattern.in_flight, pattern.most_bytes, kMostBytes, pattern.longest}).run());
  COLIBRI_ASSIGN(const double latency, measure_latency(ranges));
  return ReadSpeed{files.direct(), measured.bytes, measured.cached_bytes, measured.per_second, latency};
}

}  // namespace colibri::platform

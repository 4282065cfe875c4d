#include "store/loader.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/check.h"

namespace colibri::store {
namespace {

constexpr size_t kUnitsAhead = 8;          // that the system is asked to read beforehand
constexpr int64_t kLargestGap = 64 << 10;  // padding between tensors that is read along

struct Piece {
  const LoadJob* job;
  int64_t first, count;
  int64_t offset, bytes;  // of the tensor's own bytes, in the file

  int file() const { return job->source.tensor->file; }
  int64_t end() const { return offset + bytes; }
};

using Unit = std::span<const Piece>;  // one read

std::vector<Piece> cut(std::span<const LoadJob> jobs, int64_t read_bytes) {
  std::vector<Piece> pieces;
  for (const LoadJob& job : jobs) {
    const MatrixSource& s = job.source;
    if (s.n == 0) continue;
    const int64_t length = piece_length(s, read_bytes);
    for (int64_t first = 0; first < s.length(); first += length) {
      const int64_t count = std::min(length, s.length() - first);
      const Extents extents = extents_of(s, first, count);
      const Extent& own = extents.list.front();
      pieces.push_back({&job, first, count, own.offset(), own.bytes});
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.file() != b.file() ? a.file() < b.file() : a.offset < b.offset;
  });
  return pieces;
}

// Pieces of matrices that lie between each other's rows overlap.
int64_t end_of(Unit unit) {
  int64_t end = 0;
  for (const Piece& piece : unit) end = std::max(end, piece.end());
  return end;
}

int64_t bytes_of(Unit unit) { return end_of(unit) - unit.front().offset; }

bool joins(Unit unit, const Piece& next, int64_t read_bytes) {
  return next.file() == unit.front().file() && next.offset - end_of(unit) <= kLargestGap &&
         next.end() - unit.front().offset <= read_bytes;
}

std::vector<Unit> gather(std::span<const Piece> pieces, int64_t read_bytes) {
  std::vector<Unit> units;
  for (size_t first = 0, end = 0; first < pieces.size(); first = end) {
    for (end = first + 1; end < pieces.size(); ++end)
      if (!joins(pieces.subspan(first, end - first), pieces[end], read_bytes)) break;
    units.push_back(pieces.subspan(first, end - first));
  }
  return units;
}

class Loading {
 public:
  Loading(const formats::TensorCatalog& catalog, std::span<const LoadJob> jobs, const StagingNeed& need,
          PageCache cache)
      : catalog_(catalog),
        need_(need),
        cache_(cache),
        pieces_(cut(jobs, need.read_bytes)),
        units_(gather(pieces_, need.read_bytes)) {}

  Status run(int threads, std::span<std::byte> staging, const LoadProgress& progress) {
    const auto share = static_cast<size_t>(need_.bytes());
    {
      const std::vector<std::jthread> others = start(threads - 1, staging.subspan(share), share);
      while (load_next(staging.first(share))) report(progress);
    }  // the others are done
    report(progress);
    if (cancelled_) return Error{ErrorCode::kCancelled, "loading was interrupted"};
    if (error_) return *std::move(error_);
    return {};
  }

 private:
  // As many threads as the system gives; the work gets done without them, too.
  std::vector<std::jthread> start(int threads, std::span<std::byte> staging, size_t share) {
    std::vector<std::jthread> started;
    started.reserve(static_cast<size_t>(threads));
    try {
      for (size_t i = 0; i < static_cast<size_t>(threads); ++i)
        started.emplace_back([this, mine = staging.subspan(i * share, share)] {
          while (load_next(mine)) {
          }
        });
    } catch (const std::system_error&) {
    }
    return started;
  }

  bool load_next(std::span<std::byte> staging) {
    const size_t unit = next_.fetch_add(1, std::memory_order_relaxed);
    expect(unit + kUnitsAhead);
    if (unit >= units_.size() || unit >= stop_at_.load(std::memory_order_relaxed)) return false;
    if (Status loaded = load(units_[unit], staging); !loaded.ok()) fail(unit, std::move(loaded).error());
    return true;
  }

  // The disk reads on while threads are busy packing.
  void expect(size_t unit) const {
    if (unit >= units_.size()) return;
    const Unit ahead = units_[unit];
    file_of(ahead).expect_read(ahead.front().offset, bytes_of(ahead));
  }

  Status load(Unit unit, std::span<std::byte> staging) {
    const auto scratch = staging.first(static_cast<size_t>(need_.scratch_bytes));
    const auto side = staging.subspan(scratch.size(), static_cast<size_t>(need_.side_bytes));
    const auto raw = staging.subspan(scratch.size() + side.size(), static_cast<size_t>(bytes_of(unit)));
    COLIBRI_TRY(read(unit, raw));
    for (const Piece& piece : unit) COLIBRI_TRY(pack(unit, piece, raw, side, scratch));
    if (cache_ == PageCache::kForget) file_of(unit).expect_no_more_reads(unit.front().offset, bytes_of(unit));
    done_bytes_.fetch_add(payload(unit), std::memory_order_relaxed);
    return {};
  }

  Status pack(Unit unit, const Piece& piece, std::span<const std::byte> read, std::span<std::byte> side,
              std::span<std::byte> scratch) const {
    const MatrixSource& source = piece.job->source;
    const Extents extents = extents_of(source, piece.first, piece.count);
    RawParts raw;
    for (size_t i = 0; i < static_cast<size_t>(extents.count); ++i) {
      const Extent& extent = extents.list[i];
      const int64_t at = extent.offset() - unit.front().offset;
      const bool there = extent.tensor->file == unit.front().file() && at >= 0 && at + extent.bytes <= bytes_of(unit);
      const auto bytes = static_cast<size_t>(extent.bytes);
      if (there) {
        raw[i] = read.subspan(static_cast<size_t>(at), bytes);
        continue;
      }
      raw[i] = side.first(bytes);
      COLIBRI_TRY(catalog_.read(*extent.tensor, extent.first, side.first(bytes)));
      side = side.subspan(bytes);
    }
    return pack_piece(source, piece.first, piece.count, extents, raw, scratch, piece.job->dst)
        .with_context(file_of(unit).path());
  }

  static std::span<std::byte> part(Unit unit, const Piece& piece, std::span<std::byte> raw) {
    return raw.subspan(static_cast<size_t>(piece.offset - unit.front().offset), static_cast<size_t>(piece.bytes));
  }

  // Of a matrix that is read by pieces each gets its share, and the last one the rest.
  static int64_t payload(Unit unit) {
    int64_t bytes = 0;
    for (const Piece& piece : unit) {
      const MatrixSource& source = piece.job->source;
      const int64_t all = source.file_size(), length = source.length();
      const auto until = [&](int64_t at) { return at == length ? all : all / length * at; };
      bytes += until(piece.first + piece.count) - until(piece.first);
    }
    return bytes;
  }

  const platform::File& file_of(Unit unit) const { return catalog_.files()[static_cast<size_t>(unit.front().file())]; }

  // All at once; if that fails, piece by piece, so that the error names the tensor.
  Status read(Unit unit, std::span<std::byte> raw) const {
    if (file_of(unit).read_at(unit.front().offset, raw).ok()) return {};
    for (const Piece& piece : unit) {
      const formats::TensorInfo& tensor = *piece.job->source.tensor;
      COLIBRI_TRY(catalog_.read(tensor, piece.offset - tensor.offset, part(unit, piece, raw)));
    }
    return {};
  }

  // Units are claimed in order, so all before a failed one are finished; of several failures the first counts.
  void fail(size_t unit, Error error) {
    const std::lock_guard lock(mutex_);
    if (unit >= stop_at_.load(std::memory_order_relaxed)) return;
    stop_at_.store(unit, std::memory_order_relaxed);
    error_ = std::move(error);
  }

  // Tells the caller what all threads have done since, and stops them when it says so.
  void report(const LoadProgress& progress) {
    const int64_t more = done_bytes_.load(std::memory_order_relaxed) - reported_bytes_;
    reported_bytes_ += more;
    if (cancelled_ || more == 0 || !progress || progress(more)) return;
    cancelled_ = true;
    const std::lock_guard lock(mutex_);
    stop_at_.store(0, std::memory_order_relaxed);
  }

  const formats::TensorCatalog& catalog_;
  const StagingNeed need_;
  const PageCache cache_;
  const std::vector<Piece> pieces_;
  const std::vector<Unit> units_;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> stop_at_{std::numeric_limits<size_t>::max()};  // units from here on are not begun
  std::atomic<int64_t> done_bytes_{0};
  std::mutex mutex_;
  std::optional<Error> error_;  // guarded by mutex_ while threads run
  int64_t reported_bytes_ = 0;  // the calling thread's, as is the next
  bool cancelled_ = false;
};

}  // namespace

Status load_matrices(const formats::TensorCatalog& catalog, std::span<const LoadJob> jobs, int threads,
                     std::span<std::byte> staging, const LoadProgress& progress, PageCache cache) {
  if (jobs.empty()) return {};
  StagingNeed need;
  for (const LoadJob& job : jobs) need.cover(job.source);
  COLIBRI_CHECK(threads >= 1 && static_cast<int64_t>(staging.size()) >= threads * need.bytes());
  for (const platform::File& file : catalog.files()) file.expect_sequential_reads();
  return Loading(catalog, jobs, need, cache).run(threads, staging, progress);
}

}  // namespace colibri::store

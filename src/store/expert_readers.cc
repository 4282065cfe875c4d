#include "store/expert_readers.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "platform/memory.h"

namespace colibri::store {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kGrace(500);  // that a thread in a read gets at the end
constexpr int kAttempts = 2;                      // a disk may fail once
constexpr int64_t kGap = 4096;                    // between extents that is read along

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
int64_t round_down(int64_t value, int64_t step) { return value / step * step; }

const MatrixSource& matrix_of(const ExpertSource& expert, int matrix) {
  return matrix == 0 ? expert.gate : matrix == 1 ? expert.up : expert.down;
}

/// One read: a range of a file that holds one or several extents of a piece, and where it lands.
struct Read {
  int file;
  int64_t offset, bytes;
};

/// Part of a matrix, or of two that lie between each other's rows, that is brought in at once. Where it lies is copied,
/// because a thread that hangs in a read must not look at the source any more when it returns.
struct Piece {
  const MatrixSource* source;
  std::byte* dst;
  const MatrixSource* other;  // nullptr: none
  std::byte* other_dst;
  int64_t first, count;
  Extents extents;
  std::array<Read, Extents::kMax> reads;
  int read_count;
  // [extents]: the read, and where the extent begins in it. Known from the start: when a read that hung comes back, the
  // catalog may be gone.
  std::array<int, Extents::kMax> read_of;
  std::array<int64_t, Extents::kMax> within;
};

int pieces_of(const MatrixSource& source, int64_t read_bytes) {
  if (source.n == 0) return 0;
  const int64_t length = piece_length(source, read_bytes);
  return static_cast<int>((source.length() + length - 1) / length);
}

// The matrices that have pieces of their own.
bool read_with_gate(const ExpertSource& expert, int matrix) {
  return matrix == 1 && interleaved_with(expert.gate, expert.up);
}

int pieces_of(const ExpertSource& expert, int64_t read_bytes) {
  int pieces = 0;
  for (int m = 0; m < 3; ++m)
    if (!read_with_gate(expert, m)) pieces += pieces_of(matrix_of(expert, m), read_bytes);
  return pieces;
}

// Extents that are neighbours are read together.
void plan_reads(Piece& piece) {
  const auto n = static_cast<size_t>(piece.extents.count);
  std::array<size_t, Extents::kMax> order;
  for (size_t i = 0; i < n; ++i) order[i] = i;
  std::sort(order.begin(), order.begin() + n, [&](size_t a, size_t b) {
    const Extent &x = piece.extents.list[a], &y = piece.extents.list[b];
    return x.tensor->file != y.tensor->file ? x.tensor->file < y.tensor->file : x.offset() < y.offset();
  });
  piece.read_count = 0;
  for (size_t i = 0; i < n; ++i) {
    const Extent& extent = piece.extents.list[order[i]];
    Read* last = piece.read_count > 0 ? &piece.reads[static_cast<size_t>(piece.read_count) - 1] : nullptr;
    if (last != nullptr && last->file == extent.tensor->file && extent.offset() - last->offset - last->bytes <= kGap)
      last->bytes = std::max(last->bytes, extent.offset() + extent.bytes - last->offset);
    else
      piece.reads[static_cast<size_t>(piece.read_count++)] = {extent.tensor->file, extent.offset(), extent.bytes};
    piece.read_of[order[i]] = piece.read_count - 1;
    piece.within[order[i]] = extent.offset() - piece.reads[static_cast<size_t>(piece.read_count - 1)].offset;
  }
}

// Gate, up, down: the down projection is what is multiplied last.
Piece piece_at(const ExpertLoad& load, int index, int64_t read_bytes) {
  const ExpertSource& expert = *load.source;
  std::byte* const dst[] = {load.gate, load.up, load.down};
  int m = 0;
  for (; m < 3; ++m) {
    const int n = read_with_gate(expert, m) ? 0 : pieces_of(matrix_of(expert, m), read_bytes);
    if (index < n) break;
    index -= n;
  }
  const MatrixSource& source = matrix_of(expert, m);
  const int64_t length = piece_length(source, read_bytes), first = index * length;
  const int64_t count = std::min(length, source.length() - first);
  Piece piece{&source, dst[m], nullptr, nullptr, first, count, {}, {}, 0, {}, {}};
  if (m == 0 && read_with_gate(expert, 1)) {
    piece.other = &expert.up;
    piece.other_dst = load.up;
    piece.extents = extents_of_both(source, expert.up, first, count);
  } else {
    piece.extents = extents_of(source, first, count);
  }
  plan_reads(piece);
  return piece;
}

/// Loads in the order in which they were begun.
struct Queue {
  ExpertLoad *first = nullptr, *last = nullptr;

  void push(ExpertLoad& load) {
    load.before = last;
    load.after = nullptr;
    (last != nullptr ? last->after : first) = &load;
    last = &load;
  }
  void remove(ExpertLoad& load) {
    (load.before != nullptr ? load.before->after : first) = load.after;
    (load.after != nullptr ? load.after->before : last) = load.before;
    load.before = load.after = nullptr;
  }
};

/// What one thread needs: `own` bytes of tensors are read at once, the rest beside it.
struct Need {
  int64_t own = 0, side = 0, scratch = 0;

  int64_t reading() const {
    const int64_t block = platform::RawFile::kAlignment;
    return round_up(own + side + (Extents::kMax - 1) * kGap, block) + 2 * Extents::kMax * block;
  }
  int64_t bytes() const { return reading() + scratch; }
};

Need need_of(std::span<const ExpertSource> experts, const ReaderOptions& options) {
  Need need{options.piece_bytes, 0, 0};
  for (const ExpertSource& expert : experts)
    for (int m = 0; m < 3; ++m) {
      const MatrixSource& source = matrix_of(expert, m);
      need.own = std::max(need.own, least_read_bytes(source));
      need.side = std::max(need.side, side_bytes(source));
      need.scratch = std::max(need.scratch, round_up(scratch_bytes(source), platform::RawFile::kAlignment));
    }
  return need;
}

}  // namespace

struct ExpertReaders::State {
  std::unique_ptr<ByteSource> source;
  Need need;
  platform::Arena staging;

  mutable std::mutex mutex;
  std::condition_variable work, finished_one;
  // All of the following is guarded by mutex.
  Queue demand, guesses;
  ExpertLoad *finished_first = nullptr, *finished_last = nullptr;  // through `after`
  int demanded_in_flight = 0, in_flight = 0;                       // pieces being read or packed
  int threads_alive = 0, packing = 0;
  bool stopping = false;
  Clock::time_point last_progress = Clock::now(), busy_since = last_progress;
  ReadTotals totals;

  struct Claim {
    ExpertLoad* load;
    Piece piece;
    bool demanded;
  };

  void run(std::span<std::byte> memory) {
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [this] { return stopping || next() != nullptr; });
      if (stopping) break;
      const Claim claim = take();
      lock.unlock();
      const Clock::time_point start = Clock::now();
      const ReadPiece read = read_piece(claim.piece, memory);
      const Clock::time_point read_end = Clock::now();
      lock.lock();
      if (stopping) break;  // from here on neither slots nor catalog may be there any more
      std::optional<Error> error = problem_of(claim.piece, read);
      count(claim, read, std::chrono::duration<double>(read_end - start).count(), error.has_value());
      if (!error) error = pack(lock, claim.piece, read.raw, memory, read_end);
      finish(claim, std::move(error));
    }
    --threads_alive;
    finished_one.notify_all();
  }

  // Idle disk time only: guesses wait while anything that is wanted is queued or under way.
  ExpertLoad* next() const {
    if (demand.first != nullptr) return demand.first;
    return demanded_in_flight == 0 ? guesses.first : nullptr;
  }

  Queue& queue_of(const ExpertLoad& load) { return load.demanded ? demand : guesses; }

  Claim take() {
    ExpertLoad* load = next();
    const Claim claim{load, piece_at(*load, load->next_piece++, need.own), load->demanded};
    if (load->next_piece == load->pieces) queue_of(*load).remove(*load);
    if (in_flight++ == 0) last_progress = busy_since = Clock::now();
    if (claim.demanded) ++demanded_in_flight;
    return claim;
  }

  struct ReadPiece {
    RawParts raw;       // [extents of the piece]
    int64_t bytes = 0;  // as read
    int reads = 0;      // that were begun; the last one is what the next three say
    platform::ReadOutcome outcome;
    int64_t before = 0, needed = 0;  // bytes of whole blocks before what is wanted, and up to its end
    bool changed = false;
  };

  ReadPiece read_piece(const Piece& piece, std::span<std::byte> memory) {
    ReadPiece r;
    std::array<const std::byte*, Extents::kMax> begin{};
    for (; r.reads < piece.read_count && r.outcome.error == 0 && r.outcome.bytes >= r.needed; ++r.reads) {
      const Read& read = piece.reads[static_cast<size_t>(r.reads)];
      begin[static_cast<size_t>(r.reads)] = read_blocks(read, memory, r);
      r.changed = r.changed || source->changed(read.file);
    }
    for (size_t i = 0; i < static_cast<size_t>(piece.extents.count); ++i) {
      const auto read = static_cast<size_t>(piece.read_of[i]);
      if (begin[read] != nullptr)
        r.raw[i] = {begin[read] + piece.within[i], static_cast<size_t>(piece.extents.list[i].bytes)};
    }
    return r;
  }

  // Whole blocks around the range, into the memory's first bytes, which are taken. Where the range begins.
  const std::byte* read_blocks(const Read& read, std::span<std::byte>& memory, ReadPiece& r) {
    const int64_t block = source->alignment();
    const int64_t first = round_down(read.offset, block);
    r.before = read.offset - first;
    r.needed = r.before + read.bytes;
    const std::span<std::byte> all = memory.first(static_cast<size_t>(round_up(r.needed, block)));
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      r.outcome = source->read(read.file, first, all, r.needed);
      if (r.outcome.error == 0) break;
    }
    r.bytes += r.outcome.bytes;
    memory = memory.subspan(all.size());
    return all.data() + r.before;
  }

  std::optional<Error> problem_of(const Piece& piece, const ReadPiece& r) const {
    const int last = r.reads - 1;
    const auto problem = [&](const std::string& what) {
      return Error{ErrorCode::kIo, place(piece, last) + ": " + what};
    };
    if (r.outcome.error != 0)
      return problem("cannot read: " + std::generic_category().message(r.outcome.error) +
                     "; check the disk (dmesg), then start again");
    if (r.outcome.bytes < r.needed)
      return problem("only " + std::to_string(std::max<int64_t>(0, r.outcome.bytes - r.before)) +
                     " bytes were there: the file was cut while the model was running, or its disk fails; "
                     "restore it and start again");
    if (r.changed)
      return problem("the file was changed while the model was running, so its weights cannot be trusted; start again");
    return std::nullopt;
  }

  std::string place(const Piece& piece, int number) const {
    const Read& read = piece.reads[static_cast<size_t>(number)];
    const auto* extent = piece.extents.begin();
    while (piece.read_of[static_cast<size_t>(extent - piece.extents.begin())] != number) ++extent;
    return source->path(read.file) + ": tensor " + extent->tensor->name + ", " + std::to_string(read.bytes) +
           " bytes at offset " + std::to_string(read.offset);
  }

  // Packing goes on without the lock, but the end waits for it.
  std::optional<Error> pack(std::unique_lock<std::mutex>& lock, const Piece& piece, const RawParts& raw,
                            std::span<std::byte> memory, Clock::time_point start) {
    const auto scratch = memory.subspan(static_cast<size_t>(need.reading()));
    ++packing;
    lock.unlock();
    Status packed = pack_piece(*piece.source, piece.first, piece.count, piece.extents, raw, scratch, piece.dst);
    if (packed.ok() && piece.other != nullptr)
      packed = pack_piece(*piece.other, piece.first, piece.count, piece.extents, raw, scratch, piece.other_dst);
    if (!packed.ok()) packed = std::move(packed).with_context(source->path(piece.source->tensor->file));
    lock.lock();
    --packing;
    totals.pack_seconds += std::chrono::duration<double>(Clock::now() - start).count();
    if (packed.ok()) return std::nullopt;
    return std::move(packed).error();
  }

  void count(const Claim& claim, const ReadPiece& read, double seconds, bool failed) {
    totals.reads += static_cast<uint64_t>(read.reads);
    totals.bytes += static_cast<uint64_t>(read.bytes);
    if (!claim.demanded) totals.speculative_bytes += static_cast<uint64_t>(read.bytes);
    if (failed) ++totals.failed;
    totals.read_seconds += seconds;
    totals.slowest_read_seconds = std::max(totals.slowest_read_seconds, seconds);
  }

  void finish(const Claim& claim, std::optional<Error> error) {
    ExpertLoad& load = *claim.load;
    last_progress = Clock::now();
    if (--in_flight == 0) totals.reading_seconds += std::chrono::duration<double>(last_progress - busy_since).count();
    if (claim.demanded && --demanded_in_flight == 0 && guesses.first != nullptr) work.notify_all();
    if (error && !load.error) {
      load.error = std::move(error);
      give_up(load);
    }
    if (--load.unfinished > 0) return;
    load.after = nullptr;
    (finished_last != nullptr ? finished_last->after : finished_first) = &load;
    finished_last = &load;
    finished_one.notify_all();
  }

  // What nobody has begun to read of a load that failed.
  void give_up(ExpertLoad& load) {
    if (load.next_piece == load.pieces) return;
    queue_of(load).remove(load);
    load.unfinished -= load.pieces - load.next_piece;
    load.next_piece = load.pieces;
  }
};

int64_t ExpertReaders::staging_bytes(std::span<const ExpertSource> experts, const ReaderOptions& options) {
  return options.threads * need_of(experts, options).bytes();
}

Result<std::unique_ptr<ExpertReaders>> ExpertReaders::start(std::unique_ptr<ByteSource> source,
                                                            std::span<const ExpertSource> experts,
                                                            const ReaderOptions& options) {
  COLIBRI_CHECK(options.threads >= 1);
  auto state = std::make_shared<State>();
  state->source = std::move(source);
  state->need = need_of(experts, options);
  COLIBRI_ASSIGN(state->staging, platform::Arena::allocate(staging_bytes(experts, options)));
  const auto share = static_cast<size_t>(state->need.bytes());
  std::unique_ptr<ExpertReaders> readers(new ExpertReaders(state));
  for (int i = 0; i < options.threads; ++i) {
    const std::span<std::byte> memory(state->staging.data() + static_cast<size_t>(i) * share, share);
    {
      const std::lock_guard lock(state->mutex);
      ++state->threads_alive;
    }
    try {
      std::thread([state, memory] { state->run(memory); }).detach();
    } catch (const std::system_error& e) {
      const std::lock_guard lock(state->mutex);
      if (--state->threads_alive > 0) break;  // fewer will do
      return Error{ErrorCode::kDoesNotFit, std::string("cannot start a thread that reads experts: ") + e.what()};
    }
  }
  return readers;
}

ExpertReaders::~ExpertReaders() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->work.notify_all();
  state_->finished_one.wait_for(lock, kGrace, [this] { return state_->threads_alive == 0; });
  state_->finished_one.wait(lock, [this] { return state_->packing == 0; });
}

void ExpertReaders::begin(ExpertLoad& load, bool demanded) {
  load.error.reset();
  load.demanded = demanded;
  load.pieces = load.unfinished = pieces_of(*load.source, state_->need.own);
  load.next_piece = 0;
  {
    const std::lock_guard lock(state_->mutex);
    state_->queue_of(load).push(load);
  }
  state_->work.notify_all();
}

void ExpertReaders::promote(ExpertLoad& load) {
  {
    const std::lock_guard lock(state_->mutex);
    if (load.demanded) return;
    const bool queued = load.next_piece < load.pieces;
    if (queued) state_->guesses.remove(load);
    load.demanded = true;
    if (queued) state_->demand.push(load);
  }
  state_->work.notify_all();
}

size_t ExpertReaders::collect(std::span<ExpertLoad*> out, std::chrono::microseconds timeout) {
  std::unique_lock lock(state_->mutex);
  const auto any = [this] { return state_->finished_first != nullptr; };
  if (!any() && timeout.count() > 0) state_->finished_one.wait_for(lock, timeout, any);
  size_t n = 0;
  while (n < out.size() && any()) {
    ExpertLoad* load = state_->finished_first;
    state_->finished_first = load->after;
    if (state_->finished_first == nullptr) state_->finished_last = nullptr;
    load->after = nullptr;
    out[n++] = load;
  }
  return n;
}

Clock::time_point ExpertReaders::last_progress() const {
  const std::lock_guard lock(state_->mutex);
  return state_->last_progress;
}

const std::string& ExpertReaders::path(int file) const { return state_->source->path(file); }

ReadTotals ExpertReaders::totals() const {
  const std::lock_guard lock(state_->mutex);
  return state_->totals;
}

}  // namespace colibri::store

#include "store/expert_readers.h"

#include <algorithm>
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

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
int64_t round_down(int64_t value, int64_t step) { return value / step * step; }

const MatrixSource& matrix_of(const ExpertSource& expert, int matrix) {
  return matrix == 0 ? expert.gate : matrix == 1 ? expert.up : expert.down;
}

/// Rows of one matrix that are read at once. Where they lie is copied, because a thread that hangs in a read must not
/// look at the source any more when it returns.
struct Piece {
  const MatrixSource* source;
  std::byte* dst;
  int64_t row, count;
  int file;
  int64_t offset, bytes;
};

int pieces_of(const MatrixSource& source, int64_t read_bytes) {
  const int64_t rows = rows_per_piece(source, read_bytes);
  return static_cast<int>((source.n + rows - 1) / rows);
}

int pieces_of(const ExpertSource& expert, int64_t read_bytes) {
  return pieces_of(expert.gate, read_bytes) + pieces_of(expert.up, read_bytes) + pieces_of(expert.down, read_bytes);
}

// Gate, up, down: the down projection is what is multiplied last.
Piece piece_at(const ExpertLoad& load, int index, int64_t read_bytes) {
  std::byte* const dst[] = {load.gate, load.up, load.down};
  for (int m = 0;; ++m) {
    const MatrixSource& source = matrix_of(*load.source, m);
    const int n = pieces_of(source, read_bytes);
    if (index >= n) {
      index -= n;
      continue;
    }
    const int64_t rows = rows_per_piece(source, read_bytes), row = index * rows;
    const int64_t count = std::min(rows, source.n - row);
    return {&source, dst[m], row, count, source.tensor->file, source.file_offset(row), count * source.row_bytes()};
  }
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

/// The largest piece, and what one of its rows may need beyond it.
int64_t largest_piece(std::span<const ExpertSource> experts, const ReaderOptions& options) {
  int64_t bytes = options.piece_bytes;
  for (const ExpertSource& expert : experts)
    for (int m = 0; m < 3; ++m) {
      const MatrixSource& source = matrix_of(expert, m);
      COLIBRI_CHECK(source.interleaved_heads == 0);
      bytes = std::max(bytes, std::min(source.n, int64_t{kPanelWidth}) * source.row_bytes());
    }
  return bytes;
}

int64_t staging_of_thread(int64_t piece_bytes) {
  return round_up(piece_bytes, platform::RawFile::kAlignment) + 2 * platform::RawFile::kAlignment;
}

}  // namespace

struct ExpertReaders::State {
  std::unique_ptr<ByteSource> source;
  int64_t piece_bytes = 0;
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
      count(claim, read.outcome.bytes, std::chrono::duration<double>(read_end - start).count(), error.has_value());
      if (!error) pack(lock, claim.piece, read.raw, read_end);
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
    const Claim claim{load, piece_at(*load, load->next_piece++, piece_bytes), load->demanded};
    if (load->next_piece == load->pieces) queue_of(*load).remove(*load);
    if (in_flight++ == 0) last_progress = busy_since = Clock::now();
    if (claim.demanded) ++demanded_in_flight;
    return claim;
  }

  struct ReadPiece {
    platform::ReadOutcome outcome;
    int64_t first = 0, needed = 0;   // of the file: where the read began, bytes up to the piece's end
    std::span<const std::byte> raw;  // the piece
    bool changed = false;
  };

  // Whole blocks around the piece.
  ReadPiece read_piece(const Piece& piece, std::span<std::byte> memory) {
    const int64_t block = source->alignment();
    ReadPiece r;
    r.first = round_down(piece.offset, block);
    r.needed = piece.offset + piece.bytes - r.first;
    r.raw = memory.subspan(static_cast<size_t>(piece.offset - r.first), static_cast<size_t>(piece.bytes));
    const std::span<std::byte> all = memory.first(static_cast<size_t>(round_up(r.needed, block)));
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      r.outcome = source->read(piece.file, r.first, all, r.needed);
      if (r.outcome.error == 0) break;
    }
    r.changed = source->changed(piece.file);
    return r;
  }

  std::optional<Error> problem_of(const Piece& piece, const ReadPiece& r) const {
    const auto problem = [&](const std::string& what) { return Error{ErrorCode::kIo, place(piece) + ": " + what}; };
    if (r.outcome.error != 0)
      return problem("cannot read: " + std::generic_category().message(r.outcome.error) +
                     "; check the disk (dmesg), then start again");
    if (r.outcome.bytes < r.needed)
      return problem("only " + std::to_string(std::max<int64_t>(0, r.outcome.bytes - (piece.offset - r.first))) +
                     " bytes were there: the file was cut while the model was running, or its disk fails; "
                     "restore it and start again");
    if (r.changed)
      return problem("the file was changed while the model was running, so its weights cannot be trusted; start again");
    return std::nullopt;
  }

  std::string place(const Piece& piece) const {
    const formats::TensorInfo& tensor = *piece.source->tensor;
    return source->path(piece.file) + ": tensor " + tensor.name + ", " + std::to_string(piece.bytes) +
           " bytes at offset " + std::to_string(piece.offset);
  }

  // Packing goes on without the lock, but the end waits for it.
  void pack(std::unique_lock<std::mutex>& lock, const Piece& piece, std::span<const std::byte> raw,
            Clock::time_point start) {
    ++packing;
    lock.unlock();
    pack_piece(*piece.source, piece.row, piece.count, raw, {}, piece.dst);
    lock.lock();
    --packing;
    totals.pack_seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }

  void count(const Claim& claim, int64_t bytes, double seconds, bool failed) {
    ++totals.reads;
    totals.bytes += static_cast<uint64_t>(bytes);
    if (!claim.demanded) totals.speculative_bytes += static_cast<uint64_t>(bytes);
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
  return options.threads * staging_of_thread(largest_piece(experts, options));
}

Result<std::unique_ptr<ExpertReaders>> ExpertReaders::start(std::unique_ptr<ByteSource> source,
                                                            std::span<const ExpertSource> experts,
                                                            const ReaderOptions& options) {
  COLIBRI_CHECK(options.threads >= 1);
  auto state = std::make_shared<State>();
  state->source = std::move(source);
  state->piece_bytes = largest_piece(experts, options);
  COLIBRI_ASSIGN(state->staging, platform::Arena::allocate(staging_bytes(experts, options)));
  const auto share = static_cast<size_t>(staging_of_thread(state->piece_bytes));
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
  load.pieces = load.unfinished = pieces_of(*load.source, state_->piece_bytes);
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

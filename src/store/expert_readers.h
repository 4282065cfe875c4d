// ExpertReaders: threads that bring experts from disk into slots. Each takes a piece of a matrix, reads it into memory
// of its own with one large read, and packs it into the slot; so as many reads are in flight as there are threads.
//
// Two priorities: a piece that somebody only guesses will be wanted is read when nothing that is wanted is waiting or
// being read. Within a priority pieces are read in the order in which their experts were begun.
//
// States of an ExpertLoad, which belongs to the caller while idle and to the readers from begin() until collect() gives
// it back:
//   idle -> queued (begin) -> reading (a thread claims its first piece) -> finished (last piece done) -> idle (collect)
// Only collect() shows a load as finished, with `error` set or every byte of the expert in its slot. promote() moves a
// queued load to the front rank.
//
// Thread-safety: begin, promote, collect and the destructor on one thread (the owner's). Allocates nothing after
// start(), except for error messages. Ending: pieces that are being packed are waited for; a thread that hangs in a
// read is left behind and touches nothing when the read returns.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "store/byte_source.h"
#include "store/matrix_source.h"

namespace colibri::store {

/// An expert on its way.
struct ExpertLoad {
  const ExpertSource* source = nullptr;
  std::byte *gate = nullptr, *up = nullptr, *down = nullptr;  ///< where it goes
  int expert = -1;                                            ///< the owner's number for it

  // The readers' until collect() gives the load back; `error` is to be looked at then.
  std::optional<Error> error;
  bool demanded = false;
  int pieces = 0, next_piece = 0, unfinished = 0;
  ExpertLoad *before = nullptr, *after = nullptr;  // in its queue
};

struct ReaderOptions {
  int threads = 8;                  ///< reads in flight
  int64_t piece_bytes = 512 << 10;  ///< of one read, more only where 16 rows need more
};

/// What the readers did since they were started.
struct ReadTotals {
  uint64_t reads = 0, bytes = 0;   ///< bytes as read from the disk, blocks' borders included
  uint64_t speculative_bytes = 0;  ///< of these, for guesses
  uint64_t failed = 0;             ///< pieces
  double read_seconds = 0;         ///< summed over threads
  double pack_seconds = 0;         ///< summed over threads
  double slowest_read_seconds = 0;
  double reading_seconds = 0;  ///< with at least one piece under way
};

class ExpertReaders {
 public:
  /// Bytes that start() takes for reading such experts.
  static int64_t staging_bytes(std::span<const ExpertSource> experts, const ReaderOptions& options);
  /// kDoesNotFit when the system gives no memory or threads. Errors name tensors, so they must outlive the readers.
  static Result<std::unique_ptr<ExpertReaders>> start(std::unique_ptr<ByteSource> source,
                                                      std::span<const ExpertSource> experts,
                                                      const ReaderOptions& options);
  ~ExpertReaders();
  ExpertReaders(const ExpertReaders&) = delete;
  ExpertReaders& operator=(const ExpertReaders&) = delete;

  /// Queues a load whose source, memory and number are set; it must stay where it is until it was collected.
  void begin(ExpertLoad& load, bool demanded);
  /// A guess came true.
  void promote(ExpertLoad& load);
  /// Takes up to out.size() finished loads; waits up to `timeout` when there are none yet.
  size_t collect(std::span<ExpertLoad*> out, std::chrono::microseconds timeout);
  /// When a piece was last finished, or started after there was none under way.
  std::chrono::steady_clock::time_point last_progress() const;
  const std::string& path(int file) const;
  ReadTotals totals() const;

 private:
  struct State;
  explicit ExpertReaders(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // The threads have it too: one that hangs in a read must find it when it returns.
  std::shared_ptr<State> state_;
};

}  // namespace colibri::store

// PrefixDisk: the folder in which blocks of prefixes outlive the process, and the two threads that write and read it.
//
// The engine thread hands over blocks that are pinned in the pool and takes back what became of them; it never waits
// for the disk. Files are read straight into their blocks; the whole file is checked before anybody may use it. Several
// processes may share a folder: a file appears whole under its name, and one that is gone is a miss. The folder is kept
// within its size by removing the files that were used longest ago. What goes wrong is logged once and counted: after
// a failed write no more is written, after a failed read no more is read, and requests go on without.
// Thread-safety: one thread calls it, the engine's; statistics() any. Ownership: the pool must outlive it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "kv/prefix_file.h"
#include "kv/prefix_pool.h"

namespace colibri::kv {

struct PrefixDiskOptions {
  std::string folder;
  int64_t max_bytes = int64_t{1} << 30;                         ///< of all prefix files in the folder
  std::function<void(int level, const std::string& line)> log;  ///< 0 error .. 3 debug; from any thread
  std::function<void()> wake;  ///< something that was asked for is there or failed; from any thread, must not block
};

struct PrefixDiskStatistics {
  int64_t files = 0, bytes = 0;  ///< of prefix files, of whatever model
  int64_t written = 0, read = 0;
  int64_t removed = 0;  ///< to make room
  int64_t skipped = 0;  ///< damaged, of another version, or not what their name says
  int64_t errors = 0;   ///< of the disk
  bool writing = true, reading = true;
};

/// What a file is good for; more is greater.
enum class Stored : uint8_t { kNothing, kBlock, kBlockAndState };

class PrefixDisk {
 public:
  static constexpr int kMaxJobs = 64;          ///< of each kind that wait or are being done
  static constexpr size_t kMaxFiles = 100000;  ///< that are known; more are not looked at

  struct Job {
    int block = PrefixPool::kNone;  ///< pinned until done
    bool write = false;
    int snapshot = PrefixPool::kNone;  ///< written or read with it
  };
  struct Done {
    Job job;
    bool ok = false;
  };

  /// Makes the folder, removes what killed writers left, and reads the heads of the files. `common`: what the heads of
  /// all our files say of model and layout. `capacity`: the longest prefix. kIo, kDoesNotFit or kInvalidModel when the
  /// folder cannot be used.
  static Result<std::unique_ptr<PrefixDisk>> open(PrefixDiskOptions options, const PrefixPool& pool,
                                                  const PrefixFileHead& common, int64_t capacity);
  /// Waits for the file that is being written or read; what else waits is dropped.
  ~PrefixDisk();
  PrefixDisk(const PrefixDisk&) = delete;
  PrefixDisk& operator=(const PrefixDisk&) = delete;

  /// Memory besides the pool: lists of tokens.
  static int64_t bytes(int64_t capacity) { return 3 * capacity * int64_t{sizeof(TokenId)}; }

  Stored stored(const PrefixHash& hash) const;
  /// False when as many wait already, or nothing is written (read) any more.
  bool start(const Job& job);
  /// What was finished; in the order of start() among those of a kind.
  std::optional<Done> take_done();
  bool anything_done() const { return n_done_.load(std::memory_order_acquire) > 0; }
  /// Until something is finished, or so long.
  void wait(int timeout_ms);
  /// The prefix that ends with the block was used now.
  void used(int block);
  bool writes() const { return writing_.load(std::memory_order_relaxed); }
  bool reads() const { return reading_.load(std::memory_order_relaxed); }
  PrefixDiskStatistics statistics() const;

 private:
  struct HashOfHash {
    size_t operator()(const PrefixHash& hash) const { return static_cast<size_t>(hash.low); }
  };
  struct Entry {
    int64_t bytes = 0;
    int64_t used_ns = 0;
    uint32_t n_tokens = 0;
    Stored stored = Stored::kNothing;  ///< kNothing: not ours or damaged, known for its size
    bool touched = false;              ///< used since the file's time was set
  };
  using Index = std::unordered_map<PrefixHash, Entry, HashOfHash>;
  struct Queue {
    std::vector<Job> jobs;  ///< that wait
    int in_flight = 0;      ///< started and not taken back
    std::condition_variable filled;
  };

  PrefixDisk(PrefixDiskOptions options, const PrefixPool& pool, const PrefixFileHead& common, int64_t capacity);
  Status scan();
  std::optional<Entry> look_at(const PrefixHash& hash, int64_t bytes, int64_t modified_ns);
  void run(Queue& queue, bool (PrefixDisk::*work)(const Job&));
  bool write(const Job& job);
  bool read(const Job& job);
  PrefixFileHead head_of(int block) const;
  Queue& queue_of(const Job& job) { return job.write ? writes_ : reads_; }
  Status make_room(const PrefixHash& name, int64_t bytes);
  std::optional<PrefixHash> take_oldest(const PrefixHash& name, int64_t bytes);
  void remember(const Job& job, int64_t bytes);
  void mark_used(int block, int64_t used_ns);
  void set_times();
  void disregard(const PrefixHash& hash);
  void fail(std::atomic<bool>& tier, const char* what, const Error& error);
  void skip(const std::string& why);
  std::string path_of(const PrefixHash& hash) const;

  const PrefixDiskOptions options_;
  const PrefixPool& pool_;
  const PrefixFileHead common_;
  std::vector<TokenId> write_tokens_, read_tokens_, read_scratch_;  // each its thread's

  mutable std::mutex mutex_;  // of everything below that is no atomic
  Index index_;
  int64_t folder_bytes_ = 0;
  Queue writes_, reads_;
  std::vector<Done> done_;
  std::condition_variable finished_;
  bool stop_ = false;

  std::atomic<int> n_done_{0};
  std::atomic<bool> writing_{true}, reading_{true};
  std::atomic<int64_t> n_written_{0}, n_read_{0}, n_removed_{0}, n_skipped_{0}, n_errors_{0};
  std::thread writer_, reader_;
};

}  // namespace colibri::kv

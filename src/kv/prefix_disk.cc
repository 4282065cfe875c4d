#include "kv/prefix_disk.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "platform/file.h"
#include "platform/folder.h"

namespace colibri::kv {
namespace {

constexpr std::string_view kEnding = ".prefix";
constexpr size_t kHexDigits = 32;

int64_t now_ns() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::optional<uint64_t> hex_number(std::string_view digits) {
  uint64_t number = 0;
  for (const char c : digits) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return std::nullopt;
    number = number << 4 | static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return number;
}

// The block that a file's name says; nothing for files that are none of ours.
std::optional<PrefixHash> named(std::string_view name) {
  if (name.size() < kHexDigits + kEnding.size() || name.substr(kHexDigits, kEnding.size()) != kEnding) return {};
  const auto high = hex_number(name.substr(0, 16)), low = hex_number(name.substr(16, 16));
  return high && low ? std::optional(PrefixHash{*low, *high}) : std::nullopt;
}

// What a FileWriter calls the file until it is whole.
bool is_temporary(std::string_view name) {
  constexpr std::string_view kMark = ".tmp-";
  if (!named(name)) return false;
  const std::string_view rest = name.substr(kHexDigits + kEnding.size());
  return rest.starts_with(kMark) && rest.find_first_not_of("0123456789-", kMark.size()) == std::string_view::npos;
}

std::span<std::byte> bytes_of(std::span<float> floats) { return std::as_writable_bytes(floats); }

}  // namespace

Result<std::unique_ptr<PrefixDisk>> PrefixDisk::open(PrefixDiskOptions options, const PrefixPool& pool,
                                                     const PrefixFileHead& common, int64_t capacity) {
  COLIBRI_TRY(platform::create_folders(options.folder));
  std::unique_ptr<PrefixDisk> disk(new PrefixDisk(std::move(options), pool, common, capacity));
  COLIBRI_TRY(disk->scan());
  disk->writer_ = std::thread([d = disk.get()] { d->run(d->writes_, &PrefixDisk::write); });
  disk->reader_ = std::thread([d = disk.get()] { d->run(d->reads_, &PrefixDisk::read); });
  return disk;
}

PrefixDisk::PrefixDisk(PrefixDiskOptions options, const PrefixPool& pool, const PrefixFileHead& common,
                       int64_t capacity)
    : options_(std::move(options)), pool_(pool), common_(common) {
  for (std::vector<TokenId>* tokens : {&write_tokens_, &read_tokens_, &read_scratch_})
    tokens->resize(static_cast<size_t>(capacity));
  writes_.jobs.reserve(kMaxJobs);
  reads_.jobs.reserve(kMaxJobs);
  done_.reserve(2 * kMaxJobs);
}

PrefixDisk::~PrefixDisk() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  writes_.filled.notify_all();
  reads_.filled.notify_all();
  if (writer_.joinable()) writer_.join();
  if (reader_.joinable()) reader_.join();
}

std::string PrefixDisk::path_of(const PrefixHash& hash) const {
  return platform::join(options_.folder, hex(hash).append(kEnding));
}

// ---- the folder
// ------------------------------------------------------------------------------------------------------

// Before the threads are there. What is no prefix file is not counted and never removed, whatever its name.
Status PrefixDisk::scan() {
  COLIBRI_ASSIGN(const auto files, platform::list_files(options_.folder));
  for (const platform::FolderFile& file : files) {
    if (is_temporary(file.name)) platform::remove_abandoned(platform::join(options_.folder, file.name));
    const auto hash = named(file.name);
    if (!hash || file.name.size() != kHexDigits + kEnding.size() || index_.size() == kMaxFiles) continue;
    if (const auto entry = look_at(*hash, file.size_bytes, file.modified_ns)) {
      folder_bytes_ += entry->bytes;
      index_.emplace(*hash, *entry);
    }
  }
  return {};
}

std::optional<PrefixDisk::Entry> PrefixDisk::look_at(const PrefixHash& hash, int64_t bytes, int64_t modified_ns) {
  Entry entry{bytes, modified_ns, 0, Stored::kNothing, false};
  const auto head = read_prefix_head(path_of(hash));
  if (!head.ok()) {
    skip(head.error().message);
    return head.error().code == ErrorCode::kUnsupported ? std::nullopt : std::optional(entry);
  }
  if (head->hash != hash) {
    skip(path_of(hash) + ": holds another prefix, " + hex(head->hash));
    return entry;
  }
  entry.n_tokens = head->n_tokens;
  const bool ours = head->identity == common_.identity && head->geometry == common_.geometry;
  if (ours) entry.stored = head->state_bytes > 0 ? Stored::kBlockAndState : Stored::kBlock;
  return entry;
}

Status PrefixDisk::make_room(const PrefixHash& name, int64_t bytes) {
  if (bytes > options_.max_bytes)
    return Error{ErrorCode::kDoesNotFit, options_.folder + ": a prefix file takes " + std::to_string(bytes) +
                                             " bytes, all together may take " + std::to_string(options_.max_bytes) +
                                             "; raise prefix_disk"};
  while (const auto old = take_oldest(name, bytes)) {
    COLIBRI_TRY(platform::remove_file(path_of(*old)));
    ++n_removed_;
  }
  return {};
}

// The file that must go so that one of this name and size has room; it is not in the index any more. Of those used at
// the same time the end of a chain goes first.
std::optional<PrefixHash> PrefixDisk::take_oldest(const PrefixHash& name, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto same = index_.find(name);
  const int64_t after = folder_bytes_ + bytes - (same == index_.end() ? 0 : same->second.bytes);
  if (after <= options_.max_bytes && index_.size() < kMaxFiles) return std::nullopt;
  const auto age = [](const Entry& e) { return std::pair(e.used_ns, -static_cast<int64_t>(e.n_tokens)); };
  auto oldest = index_.end();
  for (auto i = index_.begin(); i != index_.end(); ++i)
    if (i != same && (oldest == index_.end() || age(i->second) < age(oldest->second))) oldest = i;
  if (oldest == index_.end()) return std::nullopt;
  const PrefixHash hash = oldest->first;
  folder_bytes_ -= oldest->second.bytes;
  index_.erase(oldest);
  return hash;
}

void PrefixDisk::remember(const Job& job, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const PrefixPool::Block& block = pool_.block(job.block);
  Entry& entry = index_[block.hash];
  folder_bytes_ += bytes - entry.bytes;
  entry.bytes = bytes;
  entry.n_tokens = static_cast<uint32_t>(block.end);
  entry.stored = job.snapshot != PrefixPool::kNone ? Stored::kBlockAndState : Stored::kBlock;
  mark_used(job.block, now_ns());
}

// A file that turned out to be worthless, or to be gone.
void PrefixDisk::disregard(const PrefixHash& hash) {
  const bool there = platform::exists(path_of(hash));
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(hash);
  if (found == index_.end()) return;
  found->second.stored = Stored::kNothing;
  if (there) return;
  folder_bytes_ -= found->second.bytes;
  index_.erase(found);
}

// Under the mutex. The whole chain gets the same time.
void PrefixDisk::mark_used(int block, int64_t used_ns) {
  for (int b = block; b != PrefixPool::kNone; b = pool_.block(b).parent) {
    const auto found = index_.find(pool_.block(b).hash);
    if (found == index_.end()) continue;
    found->second.used_ns = used_ns;
    found->second.touched = true;
  }
}

void PrefixDisk::set_times() {
  std::vector<std::pair<PrefixHash, int64_t>> used;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [hash, entry] : index_)
      if (std::exchange(entry.touched, false)) used.emplace_back(hash, entry.used_ns);
  }
  for (const auto& [hash, ns] : used) platform::set_modified(path_of(hash), ns);
}

// ---- the threads
// -----------------------------------------------------------------------------------------------------

void PrefixDisk::run(Queue& queue, bool (PrefixDisk::*work)(const Job&)) {
  std::unique_lock lock(mutex_);
  for (;;) {
    queue.filled.wait(lock, [&] { return stop_ || !queue.jobs.empty(); });
    if (stop_) break;
    const Job job = queue.jobs.front();
    queue.jobs.erase(queue.jobs.begin());
    const bool last = queue.jobs.empty();
    lock.unlock();
    const bool ok = (this->*work)(job);
    if (job.write && last) set_times();
    lock.lock();
    done_.push_back({job, ok});
    n_done_.store(static_cast<int>(done_.size()), std::memory_order_release);
    finished_.notify_all();
    lock.unlock();
    if (options_.wake) options_.wake();
    lock.lock();
  }
  lock.unlock();
  if (&queue == &writes_) set_times();
}

PrefixFileHead PrefixDisk::head_of(int b) const {
  const PrefixPool::Block& block = pool_.block(b);
  PrefixFileHead head = common_;
  head.long_prompt = block.long_prompt;
  head.hash = block.hash;
  head.n_tokens = static_cast<uint32_t>(block.end);
  head.key_bytes = block.key_bytes;
  return head;
}

bool PrefixDisk::write(const Job& job) {
  if (!writes()) return false;
  const PrefixPool::Block& block = pool_.block(job.block);
  const std::span<TokenId> tokens = std::span(write_tokens_).first(static_cast<size_t>(block.end));
  pool_.prefix_tokens(job.block, tokens);
  PrefixFileBody body{block.scope().key, tokens, pool_.data(job.block), {}};
  if (job.snapshot != PrefixPool::kNone) body.state = std::as_bytes(pool_.snapshot(job.snapshot));
  PrefixFileHead head = head_of(job.block);
  head.state_bytes = body.state.size();
  const std::string path = path_of(block.hash);
  Status status = make_room(block.hash, head.file_bytes());
  if (status.ok()) status = write_prefix_file(path, head, body);
  // Once more: another process that starts may take a temporary file for one of the dead just before it is renamed.
  if (!status.ok() && status.error().code == ErrorCode::kIo) status = write_prefix_file(path, head, body);
  if (!status.ok()) {
    fail(writing_, "prefixes are not written any more", status.error());
    return false;
  }
  ++n_written_;
  remember(job, head.file_bytes());
  return true;
}

bool PrefixDisk::read(const Job& job) {
  if (!reads()) return false;
  const PrefixPool::Block& block = pool_.block(job.block);
  const std::span<TokenId> tokens = std::span(read_tokens_).first(static_cast<size_t>(block.end));
  pool_.prefix_tokens(job.block, tokens);
  PrefixFileTarget target{read_scratch_, pool_.data(job.block), {}};
  if (job.snapshot != PrefixPool::kNone) target.state = bytes_of(pool_.snapshot(job.snapshot));
  const std::string path = path_of(block.hash);
  const Status status = read_prefix_file(path, head_of(job.block), block.scope().key, tokens, target);
  if (status.ok()) {
    ++n_read_;
    return true;
  }
  disregard(block.hash);
  if (status.error().code == ErrorCode::kIo) {
    fail(reading_, "prefixes are not read any more", status.error());
  } else if (platform::exists(path)) {
    skip(status.error().message);
  }
  return false;
}

void PrefixDisk::fail(std::atomic<bool>& tier, const char* what, const Error& error) {
  ++n_errors_;
  if (tier.exchange(false) && options_.log) options_.log(0, std::string(what) + ": " + error.message);
}

void PrefixDisk::skip(const std::string& why) {
  constexpr int64_t kLines = 10;
  const int64_t before = n_skipped_++;
  if (!options_.log || before > kLines) return;
  options_.log(1, before == kLines ? "more prefix files are skipped" : why + "; the prefix file is skipped");
}

// ---- the engine's thread
// ---------------------------------------------------------------------------------------------

Stored PrefixDisk::stored(const PrefixHash& hash) const {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(hash);
  return found == index_.end() ? Stored::kNothing : found->second.stored;
}

bool PrefixDisk::start(const Job& job) {
  if (!(job.write ? writes() : reads())) return false;
  Queue& queue = queue_of(job);
  const std::lock_guard lock(mutex_);
  if (queue.in_flight == kMaxJobs) return false;
  ++queue.in_flight;
  queue.jobs.push_back(job);
  queue.filled.notify_one();
  return true;
}

std::optional<PrefixDisk::Done> PrefixDisk::take_done() {
  if (!anything_done()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const Done done = done_.front();
  done_.erase(done_.begin());
  n_done_.store(static_cast<int>(done_.size()), std::memory_order_release);
  --queue_of(done.job).in_flight;
  return done;
}

void PrefixDisk::wait(int timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return !done_.empty() || writes_.in_flight + reads_.in_flight == 0; };
  finished_.wait_for(lock, std::chrono::milliseconds(timeout_ms), ready);
}

void PrefixDisk::used(int block) {
  const std::lock_guard lock(mutex_);
  mark_used(block, now_ns());
}

PrefixDiskStatistics PrefixDisk::statistics() const {
  PrefixDiskStatistics s;
  s.written = n_written_;
  s.read = n_read_;
  s.removed = n_removed_;
  s.skipped = n_skipped_;
  s.errors = n_errors_;
  s.writing = writes();
  s.reading = reads();
  const std::lock_guard lock(mutex_);
  s.files = static_cast<int64_t>(index_.size());
  s.bytes = folder_bytes_;
  return s;
}

}  // namespace colibri::kv

#include "store/loader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "store/expert_store.h"
#include "store/matrix_file.h"

namespace colibri::store {
namespace {

// Larger than one read, smaller, and much smaller, so that pieces are cut and gathered.
const std::vector<MatrixShape> kShapes = {{"a", 4000, 400}, {"b", 1000, 300}, {"c", 40, 8}, {"d", 3001, 500}};

// The jobs of a file, one per matrix, and memory for what they make.
class Jobs {
 public:
  explicit Jobs(const formats::TensorCatalog& catalog) : catalog_(catalog) {
    int64_t bytes = 0;
    for (const MatrixShape& m : kShapes) {
      const MatrixSource source{catalog.find(m.name), 0, m.rows, m.inputs, Encoding::kF32, m.name == "b" ? 10 : 0};
      jobs_.push_back({source, nullptr});
      need_.cover(source);
      bytes += platform::aligned_bytes(source.packed_size());
      file_bytes_ += source.file_size();
    }
    arena_ = *platform::Arena::allocate(bytes);
    for (LoadJob& job : jobs_) job.dst = arena_.take(job.source.packed_size());
  }

  Status load(int threads, const LoadProgress& progress = {}) {
    staging_.resize(static_cast<size_t>(threads * need_.bytes()));
    return load_matrices(catalog_, jobs_, threads, staging_, progress);
  }

  // One matrix after the other on one thread, as a reference.
  void load_simply() {
    staging_.resize(static_cast<size_t>(need_.bytes()));
    for (const LoadJob& job : jobs_) ASSERT_TRUE(load_matrix(catalog_, job.source, staging_, job.dst).ok());
  }

  bool operator==(const Jobs& other) const {
    return std::memcmp(arena_.data(), other.arena_.data(), static_cast<size_t>(arena_.used_bytes())) == 0;
  }
  int64_t file_bytes() const { return file_bytes_; }

 private:
  const formats::TensorCatalog& catalog_;
  std::vector<LoadJob> jobs_;
  StagingNeed need_;
  int64_t file_bytes_ = 0;
  platform::Arena arena_;
  std::vector<std::byte> staging_;
};

TEST(Loader, AnyNumberOfThreadsGivesTheSameBytes) {
  const MatrixFile file(kShapes);
  const formats::TensorCatalog catalog = file.open();
  Jobs expected(catalog);
  expected.load_simply();
  for (const int threads : {1, 2, 5}) {
    Jobs jobs(catalog);
    ASSERT_TRUE(jobs.load(threads).ok());
    EXPECT_TRUE(jobs == expected) << threads;
  }
}

TEST(Loader, ProgressComesFromTheCallingThreadAndAddsUpToEverything) {
  const MatrixFile file(kShapes);
  const formats::TensorCatalog catalog = file.open();
  for (const int threads : {1, 3}) {
    Jobs jobs(catalog);
    int64_t sum = 0;
    const auto caller = std::this_thread::get_id();
    const auto progress = [&](int64_t bytes) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      EXPECT_GT(bytes, 0);
      sum += bytes;
      return true;
    };
    ASSERT_TRUE(jobs.load(threads, progress).ok());
    EXPECT_EQ(sum, jobs.file_bytes());
  }
}

TEST(Loader, StopsWhenProgressSaysSo) {
  const MatrixFile file(kShapes);
  const formats::TensorCatalog catalog = file.open();
  // With other threads, which may do everything before the caller gets its turn, only the first call is sure to come.
  for (const auto& [threads, stop_at] : {std::pair(1, 2), {1, 1}, {3, 1}}) {
    Jobs jobs(catalog);
    int calls = 0;
    const Status status = jobs.load(threads, [&, last = stop_at](int64_t) { return ++calls < last; });
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
    EXPECT_EQ(calls, stop_at);
  }
}

TEST(Loader, TheFirstErrorInTheFileIsReportedWhateverTheThreadsDo) {
  const MatrixFile file(kShapes);
  const formats::TensorCatalog catalog = file.open();
  const int64_t cut = catalog.find("b")->offset + 1000;  // c and d are gone, too
  std::filesystem::resize_file(file.path(), static_cast<uintmax_t>(cut));
  std::string first;
  for (int round = 0; round < 12; ++round) {
    Jobs jobs(catalog);
    const Status status = jobs.load(1 + round % 4);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_NE(status.error().message.find("\"b\""), std::string::npos) << status.error().message;
    EXPECT_NE(status.error().message.find(file.path()), std::string::npos) << status.error().message;
    if (first.empty()) first = status.error().message;
    EXPECT_EQ(status.error().message, first);
  }
}

TEST(ResidentStore, LeasesGiveTheExpertsThatWereLoadedAndActivationsAreCounted) {
  const MatrixFile file({{"m", 64, 20}});
  const formats::TensorCatalog catalog = file.open();
  std::vector<ExpertSource> experts;
  StagingNeed need;
  for (int64_t e = 0; e < 4; ++e) {
    const MatrixSource part{catalog.find("m"), e * 16, 16, 20, Encoding::kF32, 0};
    experts.push_back({part, part, part});
    need.cover(part);
  }
  platform::Arena arena = *platform::Arena::allocate(resident_store_bytes(experts));
  std::vector<LoadJob> jobs;
  const auto store = make_resident_store(experts, 2, 2, arena, jobs);
  std::vector<std::byte> staging(static_cast<size_t>(need.bytes()));
  ASSERT_TRUE(load_matrices(catalog, jobs, 1, staging, {}).ok());
  const std::vector<int32_t> ids = {1, 0, 1};
  const ExpertLeases leases = store->acquire(1, ids, ArrivalOrder::kAny);
  ASSERT_TRUE(leases.all_there());
  std::vector<float> row(20);
  unpack_row(leases.by_expert()[1]->down, 0, row.data());
  EXPECT_EQ(row[0], 100 * 48);  // layer 1, expert 1 is the fourth part
  EXPECT_EQ(store->activations(1, 1), 2u);
  EXPECT_EQ(store->activations(1, 0), 1u);
  EXPECT_EQ(store->activations(0, 1), 0u);
}

}  // namespace
}  // namespace colibri::store

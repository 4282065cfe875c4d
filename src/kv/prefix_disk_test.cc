// The folder of prefixes, through the cache that uses it: what outlives the process, and what goes wrong.
#include "kv/prefix_disk.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "kv/prefix_test_folder.h"
#include "kv/prefix_test_model.h"
#include "platform/folder.h"

namespace colibri::kv {
namespace {

class PrefixDiskTest : public PrefixFolderTest {
 protected:
  void SetUp() override {
    PrefixFolderTest::SetUp();
    options.folder = folder;
  }
  // Computes a prompt in a process of its own, so to speak, and saves it.
  void save(const TokenIds& prompt, const PrefixScope& scope = {}) const {
    TestModel model(options);
    ASSERT_TRUE(model.opened.ok());
    model.run(prompt, scope);
    model.save();
  }
  int64_t restored(const TokenIds& prompt, const PrefixScope& scope = {}) const {
    return TestModel(options).run(prompt, scope);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found = names();
    std::erase_if(found, [](const std::string& name) { return !name.ends_with(".prefix"); });
    return found;
  }
  // The newest is the end of the chain.
  void make_older(const std::string& name, int seconds) const {
    const auto file = platform::list_files(folder).value();
    const auto at = std::ranges::find(file, name, &platform::FolderFile::name);
    platform::set_modified(path(name), at->modified_ns - seconds * int64_t{1'000'000'000});
  }

  TestModelOptions options;
};

TEST_F(PrefixDiskTest, PrefixesOutliveTheProcess) {
  options.layers = every_kind();
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8}) {
    SCOPED_TRACE(name(type));
    options.type = type;
    EXPECT_EQ(restored(prompt_of(500)), 0);
    save(prompt_of(500));
    EXPECT_EQ(restored(prompt_of(500)), 384);
    EXPECT_EQ(restored(prompt_of(500, 0, 200)), 128);
  }
}

// The folder may have lost it, to make room or to others.
TEST_F(PrefixDiskTest, WhatIsUsedAgainAndGoneFromTheFolderIsWrittenAgain) {
  save(prompt_of(200, 1));
  int64_t all = 0;
  for (const std::string& name : files()) all += static_cast<int64_t>(bytes(name).size());
  options.folder_bytes = all;
  TestModel model(options);
  model.run(prompt_of(200, 1));
  model.run(prompt_of(200, 2));
  model.save();
  EXPECT_EQ(restored(prompt_of(200, 1)), 0);
  model.run(prompt_of(200, 1));
  model.save();
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(PrefixDiskTest, StatesOfRecurrentModelsToo) {
  options.states = {20, 0, 3};
  save(prompt_of(500));
  EXPECT_EQ(restored(prompt_of(500)), 448);
  EXPECT_EQ(restored(prompt_of(400)), 0) << "there is no state before the end of the first prompt";
  EXPECT_EQ(restored(prompt_of(600)), 448);
}

// A state that comes after its block was written makes the file new.
TEST_F(PrefixDiskTest, AFileGetsTheStateThatCameLater) {
  options.states = {20};
  save(prompt_of(500));
  TestModel model(options);
  model.run(prompt_of(300));
  model.save();
  EXPECT_EQ(restored(prompt_of(400)), 256);
}

TEST_F(PrefixDiskTest, NothingIsSharedAcrossKeysRopesModelsAndTypes) {
  save(prompt_of(200), {"a"});
  EXPECT_EQ(restored(prompt_of(200), {"b"}), 0);
  EXPECT_EQ(restored(prompt_of(200), {"a", true}), 0);
  EXPECT_EQ(restored(prompt_of(200)), 0);
  const TestModelOptions ours = options;
  options.identity = 8;
  EXPECT_EQ(restored(prompt_of(200), {"a"}), 0);
  options = ours;
  options.type = KvType::kF16;
  EXPECT_EQ(restored(prompt_of(200), {"a"}), 0);
  options = ours;
  options.layers.push_back({1, 16, 16});
  EXPECT_EQ(restored(prompt_of(200), {"a"}), 0);
  options = ours;
  options.states = {16};
  EXPECT_EQ(restored(prompt_of(200), {"a"}), 0);
  options = ours;
  EXPECT_EQ(restored(prompt_of(200), {"a"}), 192);
}

TEST_F(PrefixDiskTest, OnlyWhatIsUsedAgainIsWrittenUnasked) {
  TestModel model(options);
  model.run(prompt_of(300, 1));
  model.run(prompt_of(300, 2));
  model.run(prompt_of(200, 1));
  for (int i = 0; i < 100 && model.prefixes->statistics().disk.written < 3; ++i) {
    model.prefixes->wait_for_disk(100);
    model.prefixes->tend();
  }
  EXPECT_EQ(model.prefixes->statistics().disk.written, 3);
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(PrefixDiskTest, APrefixLongerThanTheQueuesComesBackWhole) {
  options.capacity = 6500;
  options.pass_rows = 1000;
  options.n_blocks = 200;
  const TokenIds prompt = prompt_of(6401);
  ASSERT_GT(6400 / 64, PrefixDisk::kMaxJobs);
  save(prompt);
  EXPECT_EQ(files().size(), 100u);
  options.n_blocks = 100;
  EXPECT_EQ(restored(prompt), 6400);
  options.n_blocks = 10;
  EXPECT_EQ(restored(prompt), 640) << "what memory has room for";
}

// Whatever a file holds instead, the prompt is computed, and right.
TEST_F(PrefixDiskTest, DamagedFilesAreMisses) {
  options.states = {20};
  save(prompt_of(200));
  ASSERT_EQ(files().size(), 3u);
  for (const std::string& name : files()) {
    const std::string whole = bytes(name);
    for (const size_t at :
         {size_t{0}, size_t{9}, size_t{60}, size_t{103}, size_t{110}, whole.size() / 2, whole.size() - 1}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 4);
      write(name, damaged);
      TestModel model(options);
      EXPECT_LT(model.run(prompt_of(200)), 192) << name << " " << at;
      EXPECT_EQ(model.prefixes->statistics().disk.skipped, 1) << at;
      EXPECT_EQ(model.logged().size(), 1u) << at;
    }
    write(name, whole.substr(0, whole.size() - 1));
    EXPECT_LT(restored(prompt_of(200)), 192);
    write(name, whole);
  }
  EXPECT_EQ(restored(prompt_of(200)), 192);
}

TEST_F(PrefixDiskTest, AFileUnderAnotherNameIsNotBelieved) {
  save(prompt_of(100, 1));
  const std::string name = files()[0];
  save(prompt_of(100, 2));
  for (const std::string& other : files())
    if (other != name) write(other, bytes(name));
  TestModel model(options);
  EXPECT_EQ(model.run(prompt_of(100, 2)), 0);
  EXPECT_EQ(model.run(prompt_of(100, 1)), 64);
  EXPECT_EQ(model.prefixes->statistics().disk.skipped, 1);
}

TEST_F(PrefixDiskTest, WhatAnotherProcessRemovedIsAMiss) {
  save(prompt_of(200));
  TestModel model(options);
  for (const std::string& name : files()) std::filesystem::remove(path(name));
  EXPECT_EQ(model.run(prompt_of(200)), 0);
  EXPECT_TRUE(model.logged().empty());
  while (model.prefixes->statistics().disk.files > 0) model.prefixes->wait_for_disk(10);  // all were found to be gone
  model.save();
  EXPECT_EQ(files().size(), 3u) << "written again";
  EXPECT_EQ(restored(prompt_of(200)), 192);
}

TEST_F(PrefixDiskTest, FilesOfOthersStayWhateverTheirNames) {
  const std::string odd[] = {"notes.txt", std::string(32, 'a') + ".prefix", std::string(32, 'a') + ".prefix.tmp-no",
                             std::string(32, 'A') + ".prefix", "x.prefix"};
  for (const std::string& name : odd) write(name, std::string(1000, 'x'));
  std::filesystem::create_directory(path(std::string(32, 'b') + ".prefix"));
  std::filesystem::create_symlink("notes.txt", path(std::string(32, 'c') + ".prefix"));
  ASSERT_EQ(::mkfifo(path(std::string(32, 'd') + ".prefix").c_str(), 0600), 0);
  options.folder_bytes = 60000;
  save(prompt_of(200, 1));
  save(prompt_of(200, 2));
  for (const std::string& name : odd) EXPECT_EQ(bytes(name).size(), 1000u) << name;
  EXPECT_EQ(names().size(), 8u + 2);
}

TEST_F(PrefixDiskTest, TheFolderIsKeptWithinItsSizeAndForgetsTheOldestChainsFromTheirEnds) {
  save(prompt_of(200, 1));
  int64_t file_bytes = 0;
  for (const std::string& name : files())
    file_bytes = std::max<int64_t>(file_bytes, static_cast<int64_t>(bytes(name).size()));
  options.folder_bytes = 5 * file_bytes;
  save(prompt_of(200, 2));
  EXPECT_EQ(files().size(), 5u);
  EXPECT_EQ(restored(prompt_of(200, 1)), 128);
  EXPECT_EQ(restored(prompt_of(200, 2)), 192);
  EXPECT_EQ(restored(prompt_of(200, 1)), 128) << "used last: stays";
  save(prompt_of(100, 3));
  EXPECT_EQ(restored(prompt_of(200, 1)), 128);
  EXPECT_EQ(restored(prompt_of(200, 2)), 128);
  EXPECT_EQ(restored(prompt_of(100, 3)), 64);
}

TEST_F(PrefixDiskTest, AFolderTooSmallForOneFileEndsTheWriting) {
  options.folder_bytes = 100;
  TestModel model(options);
  model.run(prompt_of(200));
  model.save();
  EXPECT_TRUE(files().empty());
  EXPECT_FALSE(model.prefixes->statistics().disk.writing);
  ASSERT_EQ(model.logged().size(), 1u);
  EXPECT_NE(model.logged()[0].find("raise prefix_disk"), std::string::npos) << model.logged()[0];
  EXPECT_EQ(model.run(prompt_of(200)), 192) << "memory goes on";
}

TEST_F(PrefixDiskTest, AFullDiskEndsTheWritingAndNothingElse) {
  save(prompt_of(200, 1));
  TestModel model(options);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  model.run(prompt_of(200, 2));
  model.save();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(model.logged().size(), 1u);
  EXPECT_FALSE(model.prefixes->statistics().disk.writing);
  EXPECT_EQ(model.run(prompt_of(200, 1)), 192) << "reading goes on";
  EXPECT_EQ(model.run(prompt_of(200, 2)), 192);
  EXPECT_EQ(names().size(), 3u) << "no temporary file is left";
}

TEST_F(PrefixDiskTest, AFolderThatVanishesEndsTheWriting) {
  TestModel model(options);
  model.run(prompt_of(200));
  std::filesystem::remove_all(folder);
  model.save();
  EXPECT_EQ(model.prefixes->statistics().disk.errors, 1);
  EXPECT_EQ(model.logged().size(), 1u);
  EXPECT_EQ(model.run(prompt_of(200)), 192);
}

TEST_F(PrefixDiskTest, AFolderThatCannotBeIsAnErrorAtTheStart) {
  write("file", "");
  options.folder = path("file/folder");
  EXPECT_FALSE(TestModel(options).opened.ok());
}

TEST_F(PrefixDiskTest, WhatAWriterLeftWhenItWasKilledIsRemovedAndWhatIsBeingWrittenIsNot) {
  const std::string hash(32, 'a');
  const std::string dead = hash + ".prefix.tmp-1-2-3";
  write(dead, "half");
  auto alive = platform::FileWriter::create(path(hash + ".prefix"));
  ASSERT_TRUE(alive.ok() && alive->append(std::string_view("other half")).ok());
  TestModel model(options);
  EXPECT_EQ(names().size(), 1u);
  EXPECT_NE(names()[0], dead);
  EXPECT_TRUE(alive->commit().ok());
}

// What a test process does until it is killed. Fixed prompts, so that the next one finds what this one wrote. It says
// when the first is on the disk.
[[noreturn]] void write_until_killed(const TestModelOptions& options, int say) {
  TestModel model(options);
  for (int i = 0;; ++i) {
    model.run(prompt_of(400, i % 8));
    model.save();
    if (i == 0 && ::write(say, "", 1) != 1) std::abort();
    model.prefixes.reset();
    model.prefixes = PrefixCache::create(model.geometry(), options.identity).value();
    PrefixDiskOptions disk{options.folder, options.folder_bytes, {}, {}};
    if (!model.prefixes->open_folder(std::move(disk)).ok()) std::abort();
  }
}

TEST_F(PrefixDiskTest, AKilledWriterLeavesWholeFilesOrNone) {
  options.states = {20};
  options.folder_bytes = 400000;
  std::minstd_rand random(1);
  int64_t restored_in_all = 0;
  for (int round = 0; round < 25; ++round) {
    int said[2];
    ASSERT_EQ(::pipe(said), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_until_killed(options, said[1]);
    ::close(said[1]);
    char one = 0;
    ASSERT_EQ(::read(said[0], &one, 1), 1);
    ::close(said[0]);
    ::usleep(1000 + static_cast<useconds_t>(random() % 15000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself";

    TestModel model(options);
    for (int kind = 0; kind < 8; ++kind) restored_in_all += model.run(prompt_of(400, kind));
    EXPECT_TRUE(model.logged().empty()) << model.logged()[0];
    for (const std::string& name : names()) EXPECT_TRUE(name.ends_with(".prefix")) << name;
  }
  EXPECT_GT(restored_in_all, 0);
}

// One folder, several processes, and little room: files come and go under everybody's hands.
TEST_F(PrefixDiskTest, ManyMayWriteReadAndRemoveAtOnce) {
  options.folder_bytes = 200000;
  options.n_blocks = 12;
  std::atomic<int64_t> n_restored{0};
  std::vector<std::thread> processes;
  for (int p = 0; p < 3; ++p) {
    processes.emplace_back([&, p] {
      for (int i = 0; i < 10; ++i) {
        TestModel model(options);
        for (int kind = 0; kind < 3; ++kind) n_restored += model.run(prompt_of(300, (p + i + kind) % 4));
        model.save();
        EXPECT_EQ(model.prefixes->statistics().disk.errors, 0) << model.logged()[0];
      }
    });
  }
  for (std::thread& process : processes) process.join();
  EXPECT_GT(n_restored, 0);
}

// Run by tests/test_prefix_disk.py with a disk that fails: every prompt is computed right, and one line says why.
TEST_F(PrefixDiskTest, WorksOnADiskThatFails) {
  options.states = {20};
  std::string said;
  for (int i = 0; i < 3; ++i) {
    TestModel model(options);
    ASSERT_TRUE(model.opened.ok());
    for (const int kind : {1, 2, 1}) model.run(prompt_of(300, kind));
    model.save();
    const PrefixDiskStatistics disk = model.prefixes->statistics().disk;
    EXPECT_LE(disk.errors, 2);
    EXPECT_EQ(model.logged().size(), static_cast<size_t>(!disk.writing + !disk.reading));
    for (const std::string& line : model.logged()) said += line + "\n";
  }
  if (const char* log = std::getenv("PREFIX_TEST_LOG")) std::ofstream(log) << said;
}

}  // namespace
}  // namespace colibri::kv

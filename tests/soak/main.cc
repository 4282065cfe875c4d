// soak MODEL MINUTES [SEED]: engine after engine on one model, each with another budget and other settings, each with a
// crowd that asks, cancels and leaves. Every token must be the one that a model wholly in memory gives, every slot of
// the expert store must be there afterwards, and with each closed engine its memory, files and threads must be gone.
// Says one line a minute, then what it found; exit status 1 when it found anything. scripts/soak.sh runs it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "crowd.h"
#include "findings.h"
#include "process.h"
#include "prompts.h"
#include "settings.h"
#include "store_check.h"

namespace colibri::soak {
namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;

constexpr int64_t kRssGrowth = int64_t{4} << 20;  // from the first tenth of the time to the last: what malloc scatters
constexpr int64_t kHeapGrowth = int64_t{128} << 10;  // the same, of what malloc has given out
constexpr unsigned kStuckSeconds = 900;              // an engine's whole life takes far less
constexpr double kEngineSeconds = 25;                // then its crowd asks nothing new

int draw(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

/// What is left of the process after each closed engine.
class Memory {
 public:
  void add(double progress, const Holdings& h) {
    last_ = h;
    if (progress < 0.1 || early_.rss_bytes == 0) {
      early_.rss_bytes = std::max(early_.rss_bytes, h.rss_bytes);
      early_.heap_bytes = std::max(early_.heap_bytes, h.heap_bytes);
    }
    if (progress >= 0.9) late_.push_back(h);
  }

  void judge(Findings& findings) const {
    if (memory_is_a_sanitizers() || late_.empty()) return;
    const int64_t rss = median(&Holdings::rss_bytes), heap = median(&Holdings::heap_bytes);
    std::printf(
        "soak: after a close %.2f MiB resident and %.2f MiB of heap in the first tenth, %.2f and %.2f in the last\n",
        mebibytes(early_.rss_bytes), mebibytes(early_.heap_bytes), mebibytes(rss), mebibytes(heap));
    if (rss > early_.rss_bytes + kRssGrowth) findings.add("resident memory grows");
    if (heap > early_.heap_bytes + kHeapGrowth) findings.add("the heap grows");
  }

  const Holdings& last() const { return last_; }

 private:
  int64_t median(int64_t Holdings::*member) const {
    std::vector<int64_t> values;
    for (const Holdings& h : late_) values.push_back(h.*member);
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  }

  Holdings early_, last_;
  std::vector<Holdings> late_;
};

class Soak {
 public:
  Soak(std::string model, double minutes, uint64_t seed)
      : model_(std::move(model)), seconds_(minutes * 60), seed_(seed), random_(seed) {}

  int run() {
    const auto prompts = answer_prompts(model_);
    if (!prompts) return std::fprintf(stderr, "soak: %s\n", prompts.error().message.c_str()), 1;
    count_holdings();  // once before it counts: it opens files itself
    before_ = count_holdings();
    while (elapsed() < seconds_) {
      alarm(kStuckSeconds);
      live(*prompts);
      say_minute();
    }
    alarm(0);
    memory_.judge(findings_);
    return verdict();
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // The life of one engine.
  void live(const Prompts& prompts) {
    forget_peak();
    const EngineSettings settings = draw_settings(random_, (folder_.path / "heat").string());
    findings_.set_subject("seed " + std::to_string(seed_) + ", engine " + std::to_string(engines_) + ": " +
                          settings.text());
    open_and_use(prompts, settings);
    ++engines_;
    check_closed();
  }

  void open_and_use(const Prompts& prompts, const EngineSettings& settings) {
    api::Options options;
    options.settings = settings.values;
    const bool interrupts = draw(random_, 0, 15) == 0;
    const int part = draw(random_, 0, 100);
    if (interrupts)
      options.progress = [part](uint64_t done, uint64_t total) {
        return done * 100 < total * static_cast<uint64_t>(part);
      };
    auto engine = api::Engine::open(model_, std::move(options));
    if (engine) return use(*engine, prompts);
    const colibri_status code = engine.error().code;
    const bool expected =
        (interrupts && code == COLIBRI_CANCELLED) || (settings.may_not_fit && code == COLIBRI_DOES_NOT_FIT);
    if (!expected) findings_.add("the model was not opened: " + engine.error().message);
    ++refused_;
  }

  void use(api::Engine& engine, const Prompts& prompts) {
    CrowdPlan plan;
    plan.clients = draw(random_, 1, 5);
    plan.asks_at_once = draw(random_, 1, 4);
    plan.leaves = draw(random_, 0, 4) == 0;
    const bool lives_long = draw(random_, 0, 1) == 0;
    plan.asks = lives_long ? draw(random_, 200, 400) : draw(random_, 1, 60);
    plan.seconds = kEngineSeconds;
    plan.seed = random_();
    const CrowdCount count = run_crowd(engine, prompts, plan, findings_);
    total_.finished += count.finished, total_.cancelled += count.cancelled;
    total_.left += count.left, total_.tokens += count.tokens;
    streaming_ += streams(engine) ? 1 : 0;
    if (!plan.leaves) check_store(engine, prompts, findings_);
  }

  // The system may need a moment to take a joined thread off its list.
  void check_closed() {
    Holdings now = count_holdings();
    for (int i = 0; (now.threads != before_.threads || now.files != before_.files) && i < 100; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      now = count_holdings();
    }
    if (now.threads != before_.threads || now.files != before_.files)
      findings_.add("a closed engine leaves " + std::to_string(now.threads - before_.threads) + " threads and " +
                    std::to_string(now.files - before_.files) + " files behind");
    memory_.add(elapsed() / seconds_, now);
  }

  void say_minute() {
    if (elapsed() < 60 * (minute_ + 1)) return;
    minute_ = static_cast<int>(elapsed() / 60);
    std::printf("soak: minute %d: ", minute_);
    say_counts();
  }

  void say_counts() const {
    const Holdings& now = memory_.last();
    std::printf(
        "%d engines (%d streaming, %d refused), sequences %lld finished %lld cancelled %lld left, %lld tokens, "
        "%.2f MiB resident, %.2f MiB heap, %d files, %d threads, %d findings\n",
        engines_, streaming_, refused_, static_cast<long long>(total_.finished),
        static_cast<long long>(total_.cancelled), static_cast<long long>(total_.left),
        static_cast<long long>(total_.tokens), mebibytes(now.rss_bytes), mebibytes(now.heap_bytes), now.files,
        now.threads, findings_.count());
    std::fflush(stdout);
  }

  int verdict() const {
    std::printf("soak: %s after %.1f minutes with seed %llu: ", findings_.count() == 0 ? "good" : "BAD", elapsed() / 60,
                static_cast<unsigned long long>(seed_));
    say_counts();
    return findings_.count() == 0 ? 0 : 1;
  }

  struct Folder {
    std::filesystem::path path;
    Folder() {
      std::string name = (std::filesystem::temp_directory_path() / "colibri-soak-XXXXXX").string();
      path = mkdtemp(name.data()) != nullptr ? name : ".";
    }
    ~Folder() {
      if (path != ".") std::filesystem::remove_all(path);
    }
  };

  const std::string model_;
  const double seconds_;
  const uint64_t seed_;
  Random random_;
  const Folder folder_;
  const Clock::time_point start_ = Clock::now();
  Findings findings_;
  Holdings before_;
  Memory memory_;
  CrowdCount total_;
  int engines_ = 0, streaming_ = 0, refused_ = 0, minute_ = 0;
};

void on_alarm(int) {
  constexpr char kText[] = "soak: an engine hangs\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText, sizeof kText - 1);
  std::abort();  // with a core that shows where
}

}  // namespace
}  // namespace colibri::soak

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: soak MODEL MINUTES [SEED]\n"), 2;
  std::signal(SIGALRM, colibri::soak::on_alarm);
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::random_device()();
  return colibri::soak::Soak(argv[1], std::strtod(argv[2], nullptr), seed).run();
}

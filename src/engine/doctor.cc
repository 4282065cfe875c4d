#include "engine/doctor.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compute/backend.h"
#include "platform/cpu.h"
#include "platform/disk.h"
#include "platform/file.h"
#include "platform/memory.h"
#include "platform/system.h"

namespace colibri::engine {
namespace {

constexpr int64_t kLittleMemory = int64_t{2} << 30;
constexpr int64_t kFewFiles = 1024;
constexpr double kSlowDisk = 300e6;  // bytes per second

// The largest file of a folder, or the path itself.
Result<std::string> file_to_read(const std::string& path) {
  if (!platform::is_directory(path)) return path;
  COLIBRI_ASSIGN(const auto names, platform::list_directory(path));
  std::string largest;
  int64_t most = 0;
  for (const std::string& name : names) {
    const auto file = platform::File::open(platform::join(path, name));
    if (!file.ok() || file->size_bytes() <= most) continue;
    most = file->size_bytes();
    largest = file->path();
  }
  if (most == 0) return Error{ErrorCode::kUsage, path + ": holds no file to measure the disk with; name a model"};
  return largest;
}

Json disk_json(const std::string& file, const platform::DiskSpeed& speed) {
  Json json;
  json.set("file", file);
  json.set("read_bytes", speed.bytes);
  json.set("method", speed.direct ? "direct" : "buffered");
  json.set("sequential_mb_per_second", std::round(speed.sequential_bytes_per_second / 1e6));
  json.set("random_mb_per_second", std::round(speed.random_bytes_per_second / 1e6));
  return json;
}

// The level that "auto" means here; a backend for the smallest problem tells.
Result<std::string> automatic_level() {
  COLIBRI_ASSIGN(const auto backend, compute::create_cpu_backend({}));
  return backend->isa();
}

Json instruction_sets_json(const std::string& automatic) {
  Json available{Json::Array{}};
  for (const compute::IsaLevel& level : compute::isa_levels())
    if (level.available) available.push_back(level.name);
  Json json;
  json.set("available", std::move(available));
  json.set("auto", automatic);
  return json;
}

Json limit_json(int64_t limit) { return limit < 0 ? Json("unlimited") : Json(limit); }

struct Findings {
  platform::SystemFacts system;
  int usable_cores;
  int64_t available_memory;
  std::string isa;
  std::optional<platform::DiskSpeed> disk;
};

Json advice_json(const Findings& f) {
  Json advice{Json::Array{}};
  const auto add = [&advice](bool applies, const std::string& text) {
    if (applies) advice.push_back(text);
  };
  add(f.system.huge_pages == "never" || f.system.huge_pages.empty(),
      "huge pages are off, which slows everything down: as root, echo madvise > "
      "/sys/kernel/mm/transparent_hugepage/enabled");
  add(f.usable_cores < f.system.online_cores,
      std::to_string(f.usable_cores) + " of " + std::to_string(f.system.online_cores) +
          " cores may be used: widen the CPU affinity or the CPU quota of the container");
  add(f.available_memory < kLittleMemory,
      "little memory is left: close other programs, raise the memory limit of the container, or take a smaller model");
  add(f.isa == "scalar" || f.isa == "sse4",
      "the best instruction set here is " + f.isa + ": expect a fraction of the speed of a CPU with AVX2");
  add(f.system.open_files >= 0 && f.system.open_files < kFewFiles,
      "only " + std::to_string(f.system.open_files) + " files may be open: models come in hundreds; ulimit -n 4096");
  add(f.system.swap > 0,
      "swap is on: memory that is swapped out makes tokens wait for the disk; swapoff, or a smaller --memory");
  if (!f.disk) return advice;
  add(!f.disk->direct, "this file system refuses direct reads: the disk's figures may be those of the page cache");
  add(f.disk->sequential_bytes_per_second < kSlowDisk, "this disk is slow: models load faster from a local SSD");
  return advice;
}

Json report(const Findings& f, Json disk) {
  Json cpu;
  cpu.set("model", f.system.cpu_model);
  cpu.set("cores", f.system.online_cores);
  cpu.set("usable_cores", f.usable_cores);
  Json memory;
  memory.set("total_bytes", f.system.total_memory);
  memory.set("available_bytes", f.available_memory);
  memory.set("swap_bytes", f.system.swap);
  memory.set("huge_pages", f.system.huge_pages.empty() ? "none" : f.system.huge_pages);
  Json limits;
  limits.set("open_files", limit_json(f.system.open_files));
  limits.set("locked_bytes", limit_json(f.system.locked_memory));
  Json json;
  json.set("system", f.system.kernel);
  json.set("cpu", std::move(cpu));
  json.set("instruction_sets", instruction_sets_json(f.isa));
  json.set("memory", std::move(memory));
  json.set("limits", std::move(limits));
  json.set("disk", std::move(disk));
  json.set("advice", advice_json(f));
  return json;
}

}  // namespace

Result<Json> examine_machine(const std::string& path) {
  Findings f{platform::system_facts(), platform::usable_cores(), platform::available_memory_bytes(), {}, {}};
  COLIBRI_ASSIGN(f.isa, automatic_level());
  if (path.empty()) return report(f, {});
  COLIBRI_ASSIGN(const std::string file, file_to_read(path));
  COLIBRI_ASSIGN(f.disk, platform::measure_disk(file));
  return report(f, disk_json(file, *f.disk));
}

}  // namespace colibri::engine

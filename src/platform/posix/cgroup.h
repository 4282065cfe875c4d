// Control groups: the limits that a container puts on this process, v1 and v2, walked up the hierarchy (a parent's
// limit binds its children). Pure functions over texts and folders, so that tests can build any hierarchy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace colibri::platform {

/// Folders of the group that a process is in and of its ancestors, innermost first, for one controller ("memory",
/// "cpu"). `mountinfo` and `cgroup`: the texts of /proc/self/mountinfo and /proc/self/cgroup.
std::vector<std::string> cgroup_folders(std::string_view mountinfo, std::string_view cgroup,
                                        std::string_view controller);

/// The memory limits of the folders. The paths are put together once: headroom() allocates nothing, so that it can be
/// asked every second. Thread-safety: headroom() may be called from several threads.
class CgroupMemory {
 public:
  explicit CgroupMemory(const std::vector<std::string>& folders);

  /// Bytes that the tightest limit leaves now, negative when it was lowered below what is used; page cache counts as
  /// free. nullopt: no limit.
  std::optional<int64_t> headroom() const;

 private:
  struct Group {
    std::string max, high;  // limits; v1 has no "high"
    std::string current, stat;
    bool v2;
    std::optional<int64_t> headroom() const;
  };
  std::vector<Group> groups_;
};

/// Cores that the CPU quotas of the folders allow, rounded up, at least 1. nullopt: no quota.
std::optional<int> cgroup_cpus(const std::vector<std::string>& folders);

/// The folders of this process.
std::vector<std::string> own_cgroup_folders(std::string_view controller);

/// The text of a small file of the system (whose size is not known beforehand); empty when unreadable.
std::string read_system_file(const std::string& path);
/// The same into the caller's memory, cut when it is longer; allocates nothing.
std::string_view read_system_file(const std::string& path, std::span<char> buffer);
/// The number after `key` in lines of the form "key 123"; nullopt when absent.
std::optional<int64_t> find_number(std::string_view text, std::string_view key);

}  // namespace colibri::platform

#include "platform/posix/cgroup.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>

namespace colibri::platform {
namespace {

// Calls f on each line of a text until it returns true.
template <typename F>
void for_lines(std::string_view text, F&& f) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (f(text.substr(0, end))) return;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool lists(std::string_view comma_separated, std::string_view item) {
  const auto items = split(comma_separated, ',');
  return std::find(items.begin(), items.end(), item) != items.end();
}

// Gives f the text of a file by parts until it returns false.
template <typename F>
void read_to_end(const std::string& path, F&& f) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  char buffer[4096];
  ssize_t n;
  while ((n = ::read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0 && !f(buffer, static_cast<size_t>(n))) break;
  ::close(fd);
}

std::optional<int64_t> to_number(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return std::numeric_limits<int64_t>::max();
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<int64_t> number_in(const std::string& path) {
  char buffer[64];
  return to_number(read_system_file(path, buffer));
}

// Path of the process within the hierarchy that has `controller`; "" names the unified one (v2).
std::optional<std::string> own_path(std::string_view cgroup, std::string_view controller) {
  std::optional<std::string> path;
  for_lines(cgroup, [&](std::string_view line) {  // "4:memory:/docker/1234", "0::/user.slice"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos || line.substr(second + 1, 1) != "/") return false;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? !controllers.empty() : !lists(controllers, controller)) return false;
    path = std::string(line.substr(second + 1));
    return true;
  });
  return path;
}

struct Mount {
  std::string root;   // the part of the hierarchy that is mounted
  std::string point;  // where
};

// "31 23 0:28 ROOT POINT options... - TYPE SOURCE SUPER_OPTIONS"
std::optional<Mount> find_mount(std::string_view mountinfo, std::string_view controller) {
  std::optional<Mount> mount;
  for_lines(mountinfo, [&](std::string_view line) {
    const auto fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 5 || fields.end() - dash < 4) return false;
    const bool match = controller.empty() ? dash[1] == "cgroup2" : dash[1] == "cgroup" && lists(dash[3], controller);
    if (match) mount = Mount{std::string(fields[3]), std::string(fields[4])};
    return match;
  });
  return mount;
}

// Where a path of the hierarchy is seen below the mount: without the mounted root in front. A process outside of it (a
// container without its own namespace) sees its limits at the mount point itself.
std::string below(const Mount& mount, const std::string& path) {
  if (mount.root == "/") return path;
  const bool inside =
      path.starts_with(mount.root) && (path.size() == mount.root.size() || path[mount.root.size()] == '/');
  return inside ? path.substr(mount.root.size()) : std::string();
}

void append_chain(const Mount& mount, std::string path, std::vector<std::string>& folders) {
  while (!path.empty() && path != "/") {
    if (path.find("/..") == std::string::npos) folders.push_back(mount.point + path);
    path.resize(path.find_last_of('/'));
  }
  folders.push_back(mount.point);
}

std::optional<int64_t> least(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

std::optional<int> cpus_in(const std::string& folder) {
  std::optional<int64_t> quota, period;
  if (const std::string text = read_system_file(folder + "/cpu.max"); !text.empty()) {  // "150000 100000", "max 100000"
    const auto fields = split(text, ' ');
    if (fields.size() == 2) quota = to_number(fields[0]), period = to_number(fields[1]);
  } else {
    quota = number_in(folder + "/cpu.cfs_quota_us"), period = number_in(folder + "/cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  const int64_t cpus = *quota / *period + (*quota % *period != 0);
  return static_cast<int>(std::clamp<int64_t>(cpus, 1, 1 << 20));
}

}  // namespace

std::vector<std::string> cgroup_folders(std::string_view mountinfo, std::string_view cgroup,
                                        std::string_view controller) {
  std::vector<std::string> folders;
  for (std::string_view hierarchy : {controller, std::string_view()}) {  // v1, then v2: both may be mounted
    const auto path = own_path(cgroup, hierarchy);
    const auto mount = find_mount(mountinfo, hierarchy);
    if (path && mount) append_chain(*mount, below(*mount, *path), folders);
  }
  return folders;
}

CgroupMemory::CgroupMemory(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    const std::string memory = folder + "/memory.";
    if (::access((memory + "current").c_str(), R_OK) == 0)
      groups_.push_back({memory + "max", memory + "high", memory + "current", memory + "stat", true});
    else if (::access((memory + "usage_in_bytes").c_str(), R_OK) == 0)
      groups_.push_back({memory + "limit_in_bytes", "", memory + "usage_in_bytes", memory + "stat", false});
  }
}

std::optional<int64_t> CgroupMemory::Group::headroom() const {
  const auto limit = v2 ? least(number_in(max), number_in(high)) : number_in(max);
  const auto usage = number_in(current);
  constexpr int64_t kNoLimit = int64_t{1} << 60;  // v1 writes "none" as a huge number
  if (!limit || !usage || *limit >= kNoLimit) return std::nullopt;
  char buffer[8192];
  const std::string_view text = read_system_file(stat, buffer);
  // Page cache is given back under pressure, so it does not count as used.
  const int64_t cache = find_number(text, v2 ? "inactive_file" : "total_inactive_file").value_or(0) +
                        find_number(text, v2 ? "active_file" : "total_active_file").value_or(0);
  return *limit - std::max<int64_t>(0, *usage - cache);
}

std::optional<int64_t> CgroupMemory::headroom() const {
  std::optional<int64_t> left;
  for (const Group& group : groups_) left = least(left, group.headroom());
  return left;
}

std::optional<int> cgroup_cpus(const std::vector<std::string>& folders) {
  std::optional<int> cpus;
  for (const std::string& folder : folders) {
    const std::optional<int> here = cpus_in(folder);
    if (here) cpus = cpus ? std::min(*cpus, *here) : *here;
  }
  return cpus;
}

std::vector<std::string> own_cgroup_folders(std::string_view controller) {
  return cgroup_folders(read_system_file("/proc/self/mountinfo"), read_system_file("/proc/self/cgroup"), controller);
}

std::string read_system_file(const std::string& path) {
  std::string text;
  read_to_end(path, [&text](const char* data, size_t n) {
    text.append(data, n);
    return true;
  });
  return text;
}

std::string_view read_system_file(const std::string& path, std::span<char> buffer) {
  size_t size = 0;
  read_to_end(path, [&](const char* data, size_t n) {
    n = std::min(n, buffer.size() - size);
    std::copy_n(data, n, buffer.data() + size);
    size += n;
    return size < buffer.size();
  });
  return {buffer.data(), size};
}

std::optional<int64_t> find_number(std::string_view text, std::string_view key) {
  std::optional<int64_t> number;
  for_lines(text, [&](std::string_view line) {
    if (!line.starts_with(key)) return false;
    line.remove_prefix(key.size());
    if (line.empty() || !is_blank(line.front())) return false;
    number = to_number(line);
    return true;
  });
  return number;
}

}  // namespace colibri::platform

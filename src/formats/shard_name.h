// Names of the files that one model is split into: NAME-00002-of-00005.EXTENSION.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace colibri::formats {

struct ShardName {
  std::string prefix;  ///< NAME
  int number = 0;      ///< 1 to count, unless the file strayed in
  int count = 0;

  bool is_stray() const { return number < 1 || number > count; }
  /// The name of another file of the set, with five digits as every tool writes them.
  std::string sibling(int other, std::string_view extension) const;
};

/// nullopt when `name` (without folder) is not of this form. `extension` has its dot: ".gguf".
std::optional<ShardName> parse_shard_name(std::string_view name, std::string_view extension);

}  // namespace colibri::formats

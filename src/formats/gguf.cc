#include "formats/gguf.h"

#include <algorithm>

#include "formats/foreign.h"
#include "formats/layout.h"
#include "formats/shard_name.h"

namespace colibri::formats {
namespace {

constexpr int64_t kFirstRead = int64_t{1} << 20;
constexpr int64_t kMaxHeaderBytes = int64_t{256} << 20;  // the largest vocabularies take 30 MB
constexpr std::string_view kExtension = ".gguf";

// Reads a prefix, and a longer one while the header does not end in it.
Result<GgufHeader> read_header(const platform::File& file, int index) {
  const int64_t limit = std::min(file.size_bytes(), kMaxHeaderBytes);
  std::vector<std::byte> bytes;
  for (int64_t size = std::min(kFirstRead, limit);; size = std::min(size * 4, limit)) {
    const size_t have = bytes.size();
    bytes.resize(static_cast<size_t>(size));
    COLIBRI_TRY(file.read_at(static_cast<int64_t>(have), std::span(bytes).subspan(have)));
    bool needs_more = false;
    Result<GgufHeader> header = parse_gguf_header(bytes, file.size_bytes(), index, &needs_more);
    if (!needs_more) return header;
    if (size == limit)
      return invalid("its header is longer than " + std::to_string(limit) + " bytes: damaged, or no model");
  }
}

struct OpenShard {
  platform::File file;
  GgufHeader header;
};

Result<OpenShard> open_shard(const std::string& path, int index) {
  COLIBRI_ASSIGN(platform::File file, platform::File::open(path));
  COLIBRI_ASSIGN(const std::string head, head_of(file));
  if (!head.starts_with("GGUF")) {
    if (const std::string what = describe_foreign(head); !what.empty()) return invalid(path + ": " + what);
  }
  COLIBRI_ASSIGN(GgufHeader header, read_header(file, index).with_context(path));
  return OpenShard{std::move(file), std::move(header)};
}

// An integer of the metadata; -1 when it is absent or of another type.
int64_t split_key(const GgufHeader& header, std::string_view key) {
  const Json* value = header.metadata.find(key);
  return value != nullptr && value->is_int() ? value->as_int() : -1;
}

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// What a shard says about itself against what its name says.
Status check_shard(const OpenShard& shard, const ShardName& name) {
  const int64_t number = split_key(shard.header, "split.no") + 1, count = split_key(shard.header, "split.count");
  if (number == name.number && count == name.count) return {};
  return invalid(shard.file.path() + ": is shard " + std::to_string(number) + " of " + std::to_string(count) +
                 " by its content, " + std::to_string(name.number) + " of " + std::to_string(name.count) +
                 " by its name: shards were swapped, copied or renamed; download them again");
}

Status check_all_there(const std::string& folder, const ShardName& name) {
  std::vector<std::string> missing;
  for (int i = 1; i <= name.count; ++i) {
    const std::string sibling = name.sibling(i, kExtension);
    if (!platform::exists(platform::join(folder, sibling))) missing.push_back(sibling);
  }
  if (missing.empty()) return {};
  return invalid(folder + ": " + std::to_string(missing.size()) + " of " + std::to_string(name.count) +
                 " shards are missing: " + quoted_list(missing) + "; download them");
}

// Files named like shards of the set, with numbers beyond it: of another set, or renamed.
Status check_no_strays(const std::string& folder, const ShardName& name) {
  COLIBRI_ASSIGN(const std::vector<std::string> names, platform::list_directory(folder));
  std::vector<std::string> strays;
  for (const std::string& other : names) {
    const auto shard = parse_shard_name(other, kExtension);
    if (shard && shard->prefix == name.prefix && shard->count == name.count && shard->is_stray())
      strays.push_back(other);
  }
  if (strays.empty()) return {};
  return invalid(folder + ": holds " + std::to_string(strays.size()) + " files that cannot be among " +
                 std::to_string(name.count) + " shards: " + quoted_list(strays) + "; remove them");
}

// Opens the set that the shard at `path` belongs to.
Result<TensorCatalog> open_split(const std::string& path, int64_t count) {
  const auto name = parse_shard_name(file_name(path), kExtension);
  if (!name) {
    return invalid(path + ": is one of " + std::to_string(count) +
                   " shards, but its name does not end in -00001-of-00002.gguf or the like: give it its name back");
  }
  const std::string folder = platform::parent(path);
  COLIBRI_TRY(check_all_there(folder, *name));
  COLIBRI_TRY(check_no_strays(folder, *name));
  std::vector<platform::File> files;
  std::vector<TensorInfo> tensors;
  Json metadata;
  int64_t expected = -1;
  for (int i = 1; i <= name->count; ++i) {
    COLIBRI_ASSIGN(OpenShard shard, open_shard(platform::join(folder, name->sibling(i, kExtension)), i - 1));
    COLIBRI_TRY(check_shard(shard, {name->prefix, i, name->count}));
    if (i == 1) expected = split_key(shard.header, "split.tensors.count");
    if (i == 1) metadata = std::move(shard.header.metadata);  // the first shard's is the model's
    std::move(shard.header.tensors.begin(), shard.header.tensors.end(), std::back_inserter(tensors));
    files.push_back(std::move(shard.file));
  }
  if (expected >= 0 && expected != static_cast<int64_t>(tensors.size())) {
    return invalid(path + ": the shards hold " + std::to_string(tensors.size()) +
                   " tensors, split.tensors.count says " + std::to_string(expected) +
                   ": one belongs to another model; download them again");
  }
  return TensorCatalog::build(Format::kGguf, std::move(files), std::move(tensors), std::move(metadata));
}

}  // namespace

Result<TensorCatalog> open_gguf(const std::string& path) {
  COLIBRI_ASSIGN(OpenShard shard, open_shard(path, 0));
  const int64_t count = split_key(shard.header, "split.count");
  if (count > 1) return open_split(path, count);
  std::vector<platform::File> files;
  files.push_back(std::move(shard.file));
  return TensorCatalog::build(Format::kGguf, std::move(files), std::move(shard.header.tensors),
                              std::move(shard.header.metadata));
}

}  // namespace colibri::formats

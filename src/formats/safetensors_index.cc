#include "formats/safetensors_index.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/foreign_text.h"
#include "formats/layout.h"
#include "formats/safetensors.h"
#include "formats/shard_name.h"

namespace colibri::formats {
namespace {

constexpr int64_t kMaxIndexBytes = 100'000'000;
constexpr std::string_view kExtension = ".safetensors";

// A name that stays in its folder.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

std::vector<std::string> missing_shards(const std::string& folder, const SafetensorsIndex& index) {
  std::vector<std::string> missing;
  for (const std::string& shard : index.shards)
    if (!platform::exists(platform::join(folder, shard))) missing.push_back(shard);
  return missing;
}

// Files that are named like the shards of the index but are not among them.
Result<std::vector<std::string>> extra_shards(const std::string& folder, const SafetensorsIndex& index) {
  std::set<std::string> prefixes;
  for (const std::string& shard : index.shards)
    if (const auto name = parse_shard_name(shard, kExtension)) prefixes.insert(name->prefix);
  COLIBRI_ASSIGN(const std::vector<std::string> names, platform::list_directory(folder));
  std::vector<std::string> extra;
  for (const std::string& name : names) {
    const auto shard = parse_shard_name(name, kExtension);
    const bool listed = std::binary_search(index.shards.begin(), index.shards.end(), name);
    if (shard && prefixes.contains(shard->prefix) && !listed) extra.push_back(name);
  }
  return extra;
}

Status check_shards(const std::string& folder, const SafetensorsIndex& index) {
  if (const auto missing = missing_shards(folder, index); !missing.empty()) {
    return invalid(std::to_string(missing.size()) + " of " + std::to_string(index.shards.size()) +
                   " shards are missing: " + quoted_list(missing) + "; download them");
  }
  COLIBRI_ASSIGN(const auto extra, extra_shards(folder, index));
  if (extra.empty()) return {};
  return invalid("the folder holds " + std::to_string(extra.size()) + " shards that the index does not list: " +
                 quoted_list(extra) + "; remove them, or fetch the index that belongs to them");
}

struct Disagreements {
  std::vector<std::string> elsewhere;  // in another shard than the index says
  std::vector<std::string> unlisted;   // in a shard, not in the index
  std::vector<std::string> absent;     // in the index, in no shard
};

Disagreements compare(const SafetensorsIndex& index, const std::vector<TensorInfo>& tensors) {
  struct Wanted {
    int file;
    bool found = false;
  };
  std::unordered_map<std::string_view, Wanted> wanted;
  for (const auto& [name, file] : index.tensors) wanted[name] = {file};
  const auto shard = [&](int i) { return index.shards[static_cast<size_t>(i)]; };
  Disagreements d;
  for (const TensorInfo& tensor : tensors) {
    const auto want = wanted.find(tensor.name);
    if (want == wanted.end()) {
      d.unlisted.push_back(tensor.name + " in " + shard(tensor.file));
    } else if (want->second.file != tensor.file) {
      d.elsewhere.push_back(tensor.name + " in " + shard(tensor.file) + " instead of " + shard(want->second.file));
    } else {
      want->second.found = true;
    }
  }
  for (const auto& [name, file] : index.tensors)
    if (!wanted[name].found) d.absent.push_back(name + " of " + shard(file));
  return d;
}

Status check_tensors(const SafetensorsIndex& index, const std::vector<TensorInfo>& tensors) {
  const Disagreements d = compare(index, tensors);
  if (!d.elsewhere.empty()) {
    return invalid(std::to_string(d.elsewhere.size()) + " tensors are in another shard than the index says: " +
                   quoted_list(d.elsewhere) + "; shards were swapped or copied, download them again");
  }
  if (!d.absent.empty()) {
    return invalid(std::to_string(d.absent.size()) + " tensors of the index are in no shard: " + quoted_list(d.absent) +
                   "; index and shards belong to different models");
  }
  if (d.unlisted.empty()) return {};
  return invalid(std::to_string(d.unlisted.size()) + " tensors are not in the index: " + quoted_list(d.unlisted) +
                 "; index and shards belong to different models");
}

}  // namespace

Result<SafetensorsIndex> parse_safetensors_index(std::string_view json) {
  COLIBRI_ASSIGN(const Json root, parse_json_file(json));
  const Json* map = root.find("weight_map");
  if (map == nullptr || !map->is_object()) return invalid("has no object \"weight_map\"");
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->as_object()) {
    if (!shard.is_string() || !is_plain_file_name(shard.as_string()))
      return invalid("tensor " + quoted(tensor) + " is in " + quoted(shard.dump()) + ", a plain file name is needed");
    shards.insert(shard.as_string());
  }
  if (shards.empty()) return invalid("\"weight_map\" is empty");
  SafetensorsIndex index{{shards.begin(), shards.end()}, {}};
  for (const auto& [tensor, shard] : map->as_object()) {
    const auto at = std::lower_bound(index.shards.begin(), index.shards.end(), shard.as_string());
    index.tensors.emplace_back(tensor, static_cast<int>(at - index.shards.begin()));
  }
  return index;
}

Result<TensorCatalog> open_safetensors_index(const std::string& path) {
  COLIBRI_ASSIGN(const std::string text, platform::read_text_file(path, kMaxIndexBytes));
  COLIBRI_ASSIGN(const SafetensorsIndex index, parse_safetensors_index(text).with_context(path));
  const std::string folder = platform::parent(path);
  COLIBRI_TRY(check_shards(folder, index).with_context(path));
  std::vector<platform::File> files;
  std::vector<TensorInfo> tensors;
  for (const std::string& shard : index.shards) {
    COLIBRI_ASSIGN(platform::File file, platform::File::open(platform::join(folder, shard)));
    COLIBRI_ASSIGN(std::vector<TensorInfo> part, read_safetensors_header(file, static_cast<int>(files.size())));
    tensors.insert(tensors.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
    files.push_back(std::move(file));
  }
  COLIBRI_TRY(check_tensors(index, tensors).with_context(path));
  return TensorCatalog::build(Format::kSafetensors, std::move(files), std::move(tensors), {});
}

}  // namespace colibri::formats

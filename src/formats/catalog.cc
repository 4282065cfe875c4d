#include "formats/catalog.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "formats/foreign.h"
#include "formats/gguf.h"
#include "formats/layout.h"
#include "formats/safetensors.h"
#include "formats/shard_name.h"

namespace colibri::formats {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// The *.gguf of a folder; of a split set only the first shard, so that a set counts once.
std::vector<std::string> gguf_models(const std::vector<std::string>& names) {
  std::vector<std::string> models;
  for (const std::string& name : names) {
    if (!name.ends_with(".gguf")) continue;
    const auto shard = parse_shard_name(name, ".gguf");
    const bool later = shard && !models.empty() && parse_shard_name(models.back(), ".gguf") &&
                       parse_shard_name(models.back(), ".gguf")->prefix == shard->prefix &&
                       parse_shard_name(models.back(), ".gguf")->count == shard->count;
    if (!later) models.push_back(name);
  }
  return models;
}

// Why a folder without a model file is none, from what else lies there.
Error no_model(const std::string& path, const std::vector<std::string>& names) {
  if (names.empty()) return invalid(path + ": is an empty folder, not a model");
  std::vector<std::string> pickles, others;
  for (const std::string& name : names) {
    if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth")) pickles.push_back(name);
    if (name.ends_with(".safetensors")) others.push_back(name);
  }
  const bool shards = std::any_of(others.begin(), others.end(),
                                  [](const std::string& name) { return parse_shard_name(name, ".safetensors"); });
  if (shards || (!others.empty() && pickles.empty())) {
    return invalid(path + ": holds no " + kSingle + " and no " + kIndex + ", but " + quoted_list(others) +
                   ": give the path of one, or fetch the missing index");
  }
  std::string message = path + ": holds no *.safetensors and no *.gguf";
  if (!pickles.empty()) {
    message += "; it holds PyTorch checkpoints (" + quoted_list(pickles) + "): convert them to safetensors first";
  }
  return invalid(std::move(message));
}

Result<TensorCatalog> open_folder(const std::string& path) {
  if (platform::exists(platform::join(path, kSingle)) || platform::exists(platform::join(path, kIndex)))
    return open_safetensors(path);
  COLIBRI_ASSIGN(const std::vector<std::string> names, platform::list_directory(path));
  const std::vector<std::string> models = gguf_models(names);
  if (models.size() == 1) return open_gguf(platform::join(path, models[0]));
  if (models.empty()) return no_model(path, names);
  return invalid(path + ": holds " + std::to_string(models.size()) +
                 " GGUF models, name one of them: " + quoted_list(models));
}

// A .json file: the index of shards, or by mistake another file of a model's folder.
Result<TensorCatalog> open_json(const std::string& path) {
  if (path.ends_with(".index.json")) return open_safetensors(path);
  COLIBRI_TRY(platform::File::open(path));
  return invalid(path + ": is not the weights of a model: give the folder, " + platform::parent(path));
}

// "owner/model" is how hubs name models.
Error absent(const std::string& path) {
  const bool hub = std::count(path.begin(), path.end(), '/') == 1 && path.front() != '/' && path.front() != '.' &&
                   path.back() != '/';
  return invalid(path + ": cannot open: No such file or directory; give the path of a .gguf file or of a folder with " +
                 kSingle + (hub ? ", and if this is a model's name on a hub, download it first" : ""));
}

}  // namespace

const TensorInfo* TensorCatalog::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

Status TensorCatalog::read(const TensorInfo& tensor, int64_t first, std::span<std::byte> out) const {
  const auto size = static_cast<int64_t>(out.size());
  COLIBRI_CHECK(first >= 0 && size <= tensor.bytes && first <= tensor.bytes - size);
  return files_[static_cast<size_t>(tensor.file)]
      .read_at(tensor.offset + first, out)
      .with_context("tensor " + quoted(tensor.name));
}

Result<TensorCatalog> TensorCatalog::build(Format format, std::vector<platform::File> files,
                                           std::vector<TensorInfo> tensors, Json metadata) {
  TensorCatalog catalog;
  catalog.format_ = format;
  catalog.files_ = std::move(files);
  catalog.tensors_ = std::move(tensors);
  catalog.metadata_ = std::move(metadata);
  catalog.index_.reserve(catalog.tensors_.size());
  for (size_t i = 0; i < catalog.tensors_.size(); ++i) {
    const TensorInfo& tensor = catalog.tensors_[i];
    const auto [slot, added] = catalog.index_.emplace(tensor.name, i);
    if (added) continue;
    const auto path = [&](size_t t) { return catalog.files_[static_cast<size_t>(catalog.tensors_[t].file)].path(); };
    return invalid(path(i) + ": tensor " + quoted(tensor.name) + " is there twice" +
                   (path(i) == path(slot->second) ? "" : ", also in " + path(slot->second)));
  }
  return catalog;
}

Result<TensorCatalog> open_catalog(const std::string& path) {
  if (!platform::exists(path)) return absent(path);
  if (platform::is_directory(path)) return open_folder(path);
  if (path.ends_with(".json")) return open_json(path);
  COLIBRI_ASSIGN(const platform::File file, platform::File::open(path));
  COLIBRI_ASSIGN(const std::string head, head_of(file));
  return path.ends_with(".gguf") || head.starts_with("GGUF") ? open_gguf(path) : open_safetensors(path);
}

}  // namespace colibri::formats

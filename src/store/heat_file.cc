#include "store/heat_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/little_endian.h"
#include "platform/file.h"
#include "platform/system.h"

namespace colibri::store {
namespace {

// The layout of docs/heat_file.md.
constexpr std::string_view kMagic = "COLIHEAT";
constexpr uint32_t kVersion = 1;
constexpr size_t kVersionAt = 8, kLayersAt = 12, kExpertsAt = 16, kReservedAt = 20, kIdentityAt = 24, kValuesAt = 32;
constexpr size_t kChecksumBytes = 8;
constexpr int64_t kMaxFileBytes = int64_t{64} << 20;

uint32_t u32_at(std::string_view bytes, size_t at) { return static_cast<uint32_t>(number_at(bytes, at, 4)); }

uint64_t checksum(std::string_view bytes) {
  Fnv1a hash;
  hash.add_bytes(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return hash.value();
}

size_t file_bytes(size_t n_values) { return kValuesAt + n_values * sizeof(float) + kChecksumBytes; }

bool is_heat(float value) { return std::isfinite(value) && value >= 0; }

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// What a heat file says about itself, before its values are believed; nullopt: all as expected.
std::optional<std::string> mismatch(std::string_view bytes, uint64_t identity, int n_layers, int n_experts) {
  if (u32_at(bytes, kVersionAt) != kVersion) {
    return "has version " + std::to_string(u32_at(bytes, kVersionAt)) + ", this program reads version " +
           std::to_string(kVersion);
  }
  if (const uint64_t found = number_at(bytes, kIdentityAt, 8); found != identity)
    return "belongs to another model (" + hex(found) + ", this one is " + hex(identity) + ")";
  const uint32_t layers = u32_at(bytes, kLayersAt), experts = u32_at(bytes, kExpertsAt);
  if (layers != static_cast<uint32_t>(n_layers) || experts != static_cast<uint32_t>(n_experts)) {
    return "has " + std::to_string(layers) + " layers of " + std::to_string(experts) + " experts, the model has " +
           std::to_string(n_layers) + " of " + std::to_string(n_experts);
  }
  return std::nullopt;
}

std::string wrong_size(size_t found, size_t expected) {
  return "is damaged: it has " + std::to_string(found) + " bytes, " + std::to_string(expected) + " are expected";
}

// Why `bytes` are not the heat of this model; nullopt: they are. A header that names another model or version is told
// from damage only when the checksum holds.
std::optional<std::string> complaint(std::string_view bytes, uint64_t identity, int n_layers, int n_experts) {
  const size_t expected = file_bytes(static_cast<size_t>(n_layers) * static_cast<size_t>(n_experts));
  if (bytes.size() < file_bytes(0)) return wrong_size(bytes.size(), expected);
  const size_t end = bytes.size() - kChecksumBytes;
  const bool whole = number_at(bytes, end, kChecksumBytes) == checksum(bytes.substr(0, end));
  const auto other = mismatch(bytes, identity, n_layers, n_experts);
  if (whole && other) return other;
  if (!other && bytes.size() != expected) return wrong_size(bytes.size(), expected);
  if (!whole) return "is damaged: its checksum does not fit its bytes";
  if (u32_at(bytes, kReservedAt) != 0) return "is damaged: reserved bytes are not zero";
  return std::nullopt;
}

Result<Heat> values_of(std::string_view bytes, int n_layers, int n_experts) {
  Heat heat{n_layers, n_experts, std::vector<float>(static_cast<size_t>(n_layers) * static_cast<size_t>(n_experts))};
  for (size_t i = 0; i < heat.values.size(); ++i) {
    heat.values[i] = std::bit_cast<float>(u32_at(bytes, kValuesAt + i * sizeof(float)));
    if (is_heat(heat.values[i])) continue;
    const size_t experts = static_cast<size_t>(n_experts);
    return Error{ErrorCode::kFailed, "is damaged: layer " + std::to_string(i / experts) + ", expert " +
                                         std::to_string(i % experts) + " has " + std::to_string(heat.values[i]) +
                                         " uses"};
  }
  return heat;
}

std::string image_of(uint64_t identity, const Heat& heat) {
  std::string bytes(kMagic);
  append_number(bytes, kVersion, 4);
  append_number(bytes, static_cast<uint64_t>(heat.n_layers), 4);
  append_number(bytes, static_cast<uint64_t>(heat.n_experts), 4);
  append_number(bytes, 0, 4);
  append_number(bytes, identity, 8);
  for (const float value : heat.values) append_number(bytes, std::bit_cast<uint32_t>(value), 4);
  append_number(bytes, checksum(bytes), kChecksumBytes);
  return bytes;
}

// A file of this name may be replaced: there is none, or an empty one, or one that begins as a heat file does.
Status may_replace(const std::string& path) {
  if (!platform::exists(path)) return {};
  COLIBRI_ASSIGN(const platform::File file, platform::File::open(path));
  std::string head(std::min(kMagic.size(), static_cast<size_t>(file.size_bytes())), '\0');
  COLIBRI_TRY(file.read_at(0, std::as_writable_bytes(std::span(head))));
  if (head.empty() || head == kMagic) return {};
  return Error{ErrorCode::kUsage, path + ": is not a heat file and is left as it is; give heat_file another path"};
}

// The default place for caches of this user, or empty.
std::string cache_folder() {
  const std::string cache = platform::environment_variable("XDG_CACHE_HOME");
  if (cache.starts_with('/')) return cache;
  const std::string home = platform::environment_variable("HOME");
  return home.starts_with('/') ? platform::join(home, ".cache") : std::string();
}

}  // namespace

uint64_t model_identity(const formats::TensorCatalog& catalog) {
  Fnv1a hash;
  hash.add(catalog.format() == formats::Format::kGguf ? "gguf" : "safetensors");
  hash.add(uint64_t{catalog.files().size()});
  for (const platform::File& file : catalog.files()) hash.add(static_cast<uint64_t>(file.size_bytes()));
  for (const formats::TensorInfo& tensor : catalog.tensors()) {
    hash.add(tensor.name);
    hash.add(info(tensor.dtype).name);
    hash.add(static_cast<uint64_t>(tensor.shape.size()));
    for (const int64_t dim : tensor.shape) hash.add(static_cast<uint64_t>(dim));
    hash.add(static_cast<uint64_t>(tensor.file));
    hash.add(static_cast<uint64_t>(tensor.offset));
  }
  return hash.value();
}

std::string default_heat_path(uint64_t identity) {
  const std::string folder = cache_folder();
  return folder.empty() ? folder : platform::join(folder, "colibri/heat-" + hex(identity));
}

Result<std::optional<Heat>> read_heat(const std::string& path, uint64_t identity, int n_layers, int n_experts) {
  COLIBRI_CHECK(n_layers >= 0 && n_experts >= 0);
  if (!platform::exists(path)) return std::optional<Heat>();
  const auto text = platform::read_text_file(path, kMaxFileBytes);
  if (!text.ok()) return text.error();
  const std::string_view bytes = *text;
  if (!bytes.empty() && !bytes.starts_with(kMagic)) return Error{ErrorCode::kFailed, path + ": is not a heat file"};
  const auto replaced = [&](const std::string& what) {
    return Error{ErrorCode::kFailed, path + ": " + what + "; it will be replaced"};
  };
  if (const auto wrong = complaint(bytes, identity, n_layers, n_experts)) return replaced(*wrong);
  auto heat = values_of(bytes, n_layers, n_experts);
  if (!heat) return replaced(heat.error().message);
  return std::optional(std::move(*heat));
}

Status write_heat(const std::string& path, uint64_t identity, const Heat& heat, Foreign foreign) {
  COLIBRI_CHECK(heat.values.size() == static_cast<size_t>(heat.n_layers) * static_cast<size_t>(heat.n_experts));
  for (const float value : heat.values) COLIBRI_CHECK(is_heat(value));
  if (foreign == Foreign::kKeep) COLIBRI_TRY(may_replace(path));
  COLIBRI_TRY(platform::create_folders(platform::parent(path)));
  COLIBRI_ASSIGN(platform::FileWriter writer, platform::FileWriter::create(path));
  COLIBRI_TRY(writer.append(image_of(identity, heat)));
  return writer.commit();
}

}  // namespace colibri::store

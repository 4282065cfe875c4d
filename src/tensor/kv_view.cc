#include "tensor/kv_view.h"

namespace colibri {
namespace {

constexpr std::string_view kNames[] = {"f32", "f16", "q8"};
constexpr int64_t kElementBytes[] = {4, 2, 1};

/// Elements of a tile with this many channels, and the scales of its blocks.
int64_t part_bytes(KvType type, int64_t stored, int64_t channels) {
  const int64_t scales = type == KvType::kQ8 ? (channels + 31) / 32 * int64_t{sizeof(uint16_t)} : 0;
  return KvView::kTile * (stored * kElementBytes[static_cast<size_t>(type)] + scales);
}

}  // namespace

std::string_view name(KvType type) { return kNames[static_cast<size_t>(type)]; }

std::optional<KvType> kv_type_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return static_cast<KvType>(i);
  return std::nullopt;
}

int64_t KvView::key_bytes() const { return part_bytes(type, key_dim, key_dim); }
int64_t KvView::value_bytes() const {
  return part_bytes(type, (stored_value_dim() + 15) / 16 * 16, stored_value_dim());
}

}  // namespace colibri

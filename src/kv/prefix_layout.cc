#include "kv/prefix_layout.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "base/hash.h"

namespace colibri::kv {
namespace {

constexpr int64_t kTile = KvView::kTile, kLanes = 16;
constexpr int64_t kMaxPositions = 4096;  // of a block

KvView shape_of(const KvLayer& layer, KvType type) {
  return {nullptr, type, kTile, layer.kv_heads, layer.key_dim, layer.value_dim, layer.latent};
}

// From the cache into a block, or, when the block is const, the other way.
template <typename Byte>
void move_bytes(std::byte* in_cache, Byte* in_block, int64_t bytes) {
  if constexpr (std::is_const_v<Byte>) {
    std::memcpy(in_cache, in_block, static_cast<size_t>(bytes));
  } else {
    std::memcpy(in_block, in_cache, static_cast<size_t>(bytes));
  }
}

// A run of keys of one panel: `rows` lines of 16 positions side by side, of which `n` are wanted.
struct Lines {
  std::byte* in_tile;  ///< the first wanted element of the first line
  int64_t rows;
  int64_t element_bytes;
};

// The parts of a key tile that belong to the positions at `lane` of a panel: channels, and for kQ8 their scales.
template <typename F>
void for_each_lines(const KvView& view, std::byte* tile, int64_t panel, int64_t lane, F&& f) {
  const int64_t element = view.type == KvType::kF32 ? 4 : view.type == KvType::kF16 ? 2 : 1;
  const auto lines = [&](std::byte* part, int64_t rows, int64_t bytes) {
    f(Lines{part + (panel * rows * kLanes + lane) * bytes, rows, bytes});
  };
  lines(tile, view.key_dim, element);
  if (view.type == KvType::kQ8) lines(tile + kTile * view.key_dim, (view.key_dim + 31) / 32, 2);
}

// Entries [first, first + count) of all heads, one panel after the other: f(lines, number of positions).
template <typename F>
void for_each_entry_run(const KvView& view, int64_t first, int64_t count, F&& f) {
  for (int64_t head = 0; head < view.kv_heads; ++head) {
    for (int64_t e = first, n = 0; e < first + count; e += n) {
      n = std::min(first + count - e, kLanes - e % kLanes);
      std::byte* tile = view.data + head * view.head_bytes() + e / kTile % (view.capacity / kTile) * view.tile_bytes();
      for_each_lines(view, tile, e % kTile / kLanes, e % kLanes, [&](const Lines& lines) { f(lines, n); });
    }
  }
}

template <typename Byte>
void move_entries(const KvView& view, int64_t first, int64_t count, Byte* block) {
  for_each_entry_run(view, first, count, [&](const Lines& lines, int64_t n) {
    const int64_t run = n * lines.element_bytes;
    for (int64_t row = 0; row < lines.rows; ++row, block += run)
      move_bytes(lines.in_tile + row * kLanes * lines.element_bytes, block, run);
  });
}

template <typename Byte>
void move_tile(const KvView& view, int64_t position, Byte* block) {
  const int64_t tile = position / kTile % (view.capacity / kTile);
  for (int64_t head = 0; head < view.kv_heads; ++head, block += view.tile_bytes())
    move_bytes(view.data + head * view.head_bytes() + tile * view.tile_bytes(), block, view.tile_bytes());
}

int64_t entry_bytes(const KvView& view) { return view.key_bytes() / kTile * view.kv_heads; }

uint64_t fingerprint_of(const KvGeometry& g, int64_t positions) {
  Fnv1a hash;
  for (const int64_t number : {static_cast<int64_t>(g.type), positions, static_cast<int64_t>(g.layers.size())})
    hash.add(static_cast<uint64_t>(number));
  for (const KvLayer& l : g.layers)
    for (const int64_t number :
         {int64_t{l.kv_heads}, int64_t{l.key_dim}, int64_t{l.value_dim}, int64_t{l.latent}, l.window, l.rate})
      hash.add(static_cast<uint64_t>(number));
  return hash.value();
}

}  // namespace

Result<PrefixLayout> PrefixLayout::of(const KvGeometry& geometry) {
  PrefixLayout layout;
  for (const KvLayer& layer : geometry.layers) {
    layout.positions_ = std::lcm(layout.positions_, std::max<int64_t>(1, layer.rate));
    const bool values = layer.rate > 1 && shape_of(layer, geometry.type).stored_value_dim() > 0;
    if (layout.positions_ > kMaxPositions || values)
      return Error{ErrorCode::kUnsupported,
                   "prefixes of this model cannot be kept: its layers have no common block of " +
                       std::to_string(kMaxPositions) + " positions or fewer"};
  }
  for (size_t i = 0; i < geometry.layers.size(); ++i) {
    const KvLayer& layer = geometry.layers[i];
    if (layer.kv_heads == 0) continue;
    const KvView shape = shape_of(layer, geometry.type);
    const int64_t bytes = layer.rate > 1 ? layout.positions_ / layer.rate * entry_bytes(shape)
                                         : layout.positions_ / kTile * shape.bytes();
    layout.parts_.push_back({static_cast<int>(i), layer, layout.bytes_, bytes});
    layout.bytes_ += platform::aligned_bytes(bytes);
  }
  layout.fingerprint_ = fingerprint_of(geometry, layout.positions_);
  return layout;
}

bool PrefixLayout::held(const KvCache& cache, int slot, int64_t first, int64_t written) const {
  return std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.shape.window <= 0 || written - first <= cache.view(slot, part.layer).capacity;
  });
}

void PrefixLayout::copy_out(const KvCache& cache, int slot, int64_t first, std::byte* block) const {
  for (const Part& part : parts_) {
    const KvView view = cache.view(slot, part.layer);
    std::byte* to = block + part.offset;
    if (part.shape.rate > 1) {
      move_entries(view, first / part.shape.rate, positions_ / part.shape.rate, to);
      continue;
    }
    for (int64_t p = first; p < first + positions_; p += kTile, to += view.tile_bytes() * view.kv_heads)
      move_tile(view, p, to);
  }
}

void PrefixLayout::copy_in(const KvCache& cache, int slot, int64_t first, int64_t resume,
                           const std::byte* block) const {
  for (const Part& part : parts_) {
    const KvView view = cache.view(slot, part.layer);
    const std::byte* from = block + part.offset;
    if (part.shape.rate > 1) {
      move_entries(view, first / part.shape.rate, positions_ / part.shape.rate, from);
      continue;
    }
    const int64_t first_seen = part.shape.window > 0 ? resume - part.shape.window + 1 : 0;
    for (int64_t p = first; p < first + positions_; p += kTile, from += view.tile_bytes() * view.kv_heads)
      if (p + kTile > first_seen) move_tile(view, p, from);
  }
}

}  // namespace colibri::kv

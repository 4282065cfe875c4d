// For tests: a model without arithmetic. What it keeps of a position is a hash of all tokens up to there, so that every
// byte tells whether it belongs to this prefix; and an engine that computes prompts with it as the real one does.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "kv/prefix_cache.h"

namespace colibri::kv {

/// Every kind of layer: full, none, latent, windows, an index, compressed entries (every 4th, every 128th).
inline std::vector<KvLayer> every_kind() {
  return {{2, 24, 16},
          {},
          {1, 80, 64, true},
          {2, 24, 24, false, 70},
          {1, 40, 24, true, 200},
          {1, 40, 0, false, 0, 4},
          {1, 40, 32, true, 0, 4},
          {1, 33, 33, true, 0, 128}};
}
inline std::vector<KvLayer> plain_layers() { return {{2, 16, 16}, {1, 16, 16, false, 80}}; }

/// f(byte, number of it) for all that a view keeps of an entry, as tensor/kv_view.h says.
template <typename F>
void for_each_byte(const KvView& view, int64_t entry, F&& f) {
  const int64_t element = view.type == KvType::kF32 ? 4 : view.type == KvType::kF16 ? 2 : 1;
  const int64_t in_tile = entry % 64, panel = in_tile / 16, lane = in_tile % 16;
  int64_t n = 0;
  const auto give = [&](std::byte* at, int64_t bytes) {
    for (int64_t i = 0; i < bytes; ++i) f(at[i], n++);
  };
  for (int64_t head = 0; head < view.kv_heads; ++head) {
    std::byte* keys = view.data + head * view.head_bytes() + entry / 64 % (view.capacity / 64) * view.tile_bytes();
    std::byte* values = keys + view.key_bytes();
    const int64_t d = view.key_dim, v = view.stored_value_dim(), key_blocks = (d + 31) / 32,
                  v_padded = (v + 15) / 16 * 16;
    for (int64_t c = 0; c < d; ++c) give(keys + ((panel * d + c) * 16 + lane) * element, element);
    for (int64_t c = 0; c < v; ++c) give(values + (c / 16 * 64 * 16 + in_tile * 16 + c % 16) * element, element);
    if (view.type != KvType::kQ8) continue;
    for (int64_t b = 0; b < key_blocks; ++b) give(keys + 64 * d + ((panel * key_blocks + b) * 16 + lane) * 2, 2);
    for (int64_t b = 0; b < (v + 31) / 32; ++b) give(values + 64 * v_padded + (b * 64 + in_tile) * 2, 2);
  }
}

inline std::byte byte_of(uint64_t history, size_t layer, int64_t i) {
  return static_cast<std::byte>(
      (history * 0x9e3779b97f4a7c15 + layer * 0x100000001b3 + static_cast<uint64_t>(i) * 2654435761u) >> 32);
}

inline float state_of(uint64_t history, int64_t i) { return static_cast<float>(history >> 40) + static_cast<float>(i); }

/// history[n]: a hash of the first n tokens.
inline std::vector<uint64_t> histories(const TokenIds& tokens) {
  std::vector<uint64_t> history{1};
  for (const TokenId token : tokens) {
    Fnv1a hash;
    hash.add(history.back());
    hash.add(static_cast<uint64_t>(token));
    history.push_back(hash.value());
  }
  return history;
}

/// A prompt of n tokens that begins like all others of its `kind`, and goes its own way from token `parts_at` on.
inline TokenIds prompt_of(int64_t n, int kind = 0, int64_t parts_at = 1 << 30, int own = 0) {
  TokenIds tokens;
  for (int64_t i = 0; i < n; ++i)
    tokens.push_back(static_cast<TokenId>((i * 7919 + kind * 104729 + (i >= parts_at ? 1 + own : 0)) % 151936));
  return tokens;
}

struct TestModelOptions {
  std::vector<KvLayer> layers = plain_layers();
  std::vector<int64_t> states;  ///< floats per layer; empty: not recurrent
  KvType type = KvType::kF32;
  int n_blocks = 64, n_snapshots = 4;
  int64_t capacity = 2048, pass_rows = 100;
  uint64_t identity = 7;
  std::string folder;  ///< empty: none
  int64_t folder_bytes = int64_t{1} << 30;
};

class TestModel {
 public:
  explicit TestModel(const TestModelOptions& options = {}) : options_(options) {
    const KvGeometry kv{options.layers, options.capacity, options.pass_rows + 64, 2, options.type};
    const StateGeometry state{options.states, 2, 0};
    geometry_ = {kv, state, options.n_blocks, options.n_snapshots, !options.folder.empty()};
    cache.emplace(KvCache::create(kv).value());
    states.emplace(StateCache::create(state).value());
    prefixes = PrefixCache::create(geometry_, options.identity).value();
    if (options.folder.empty()) return;
    PrefixDiskOptions disk{
        options.folder, options.folder_bytes, [this](int, const std::string& line) { log(line); }, {}};
    opened = prefixes->open_folder(std::move(disk));
  }

  /// Computes a prompt, from what can be restored on: the tokens that were restored. Everything is looked at
  /// afterwards.
  int64_t run(const TokenIds& prompt, const PrefixScope& scope = {}) {
    poison_slot(std::byte{0xa5});
    states->reset(kSlot);
    int64_t tries = 0;
    while (prefixes->prefetch(scope, prompt) && ++tries < 1000) prefixes->wait_for_disk(100);
    const auto found = prefixes->find(scope, prompt);
    const int64_t restored = prefixes->restore(scope, prompt, kSlot, *cache, *states);
    EXPECT_EQ(restored, found.resumable);
    const int64_t block = prefixes->block_positions(), n = static_cast<int64_t>(prompt.size());
    const int64_t last_border = (n - 1) / block * block;
    for (int64_t at = restored, end = 0; at < n; at = end) {
      end = std::min(n, at + options_.pass_rows);
      for (const int64_t cut : {found.known, last_border})
        if (at < cut && cut < end) end = cut;
      compute(prompt, at, end);
      prefixes->insert(scope, std::span(prompt).first(static_cast<size_t>(end)), kSlot, *cache);
      if (end == last_border || end == found.known)
        prefixes->snapshot(scope, std::span(prompt).first(static_cast<size_t>(end)), kSlot, *states);
    }
    expect_computed(prompt);
    return restored;
  }

  /// All that a token behind `tokens` can see is what computing them gives.
  void expect_computed(const TokenIds& tokens) {
    const std::vector<uint64_t> history = histories(tokens);
    const int64_t n = static_cast<int64_t>(tokens.size());
    int64_t wrong = 0;
    for_each_entry(n, [&](size_t layer, const KvView& view, int64_t entry, int64_t end) {
      for_each_byte(view, entry, [&](std::byte& b, int64_t i) {
        wrong += b != byte_of(history[static_cast<size_t>(end)], layer, i);
      });
    });
    EXPECT_EQ(wrong, 0) << "bytes of keys and values behind " << n << " tokens";
    for_each_state([&](float& value, int64_t i) { EXPECT_EQ(value, state_of(history.back(), i)); });
  }

  void compute(const TokenIds& tokens, int64_t from, int64_t to) {
    const std::vector<uint64_t> history = histories(tokens);
    for (size_t layer = 0; layer < options_.layers.size(); ++layer) {
      const KvView view = cache->view(kSlot, static_cast<int>(layer));
      const int64_t rate = options_.layers[layer].rate;
      for (int64_t end = from + 1; view.data != nullptr && end <= to; ++end) {
        if (end % rate != 0) continue;
        for_each_byte(view, end / rate - 1,
                      [&](std::byte& b, int64_t i) { b = byte_of(history[static_cast<size_t>(end)], layer, i); });
      }
    }
    // The state goes on from what it was: nobody can compute it from nothing.
    for_each_state([&](float& value, int64_t i) {
      const float before = from == 0 ? 0.0f : state_of(history[static_cast<size_t>(from)], i);
      value = value == before ? state_of(history[static_cast<size_t>(to)], i) : -1.0f;
    });
  }

  void log(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  std::vector<std::string> logged() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  /// Everything computed so far is on the disk, or the disk takes no more.
  void save() {
    for (prefixes->save(); prefixes->unsaved() > 0;) prefixes->wait_for_disk(100);
  }
  const PrefixGeometry& geometry() const { return geometry_; }

  static constexpr int kSlot = 1;
  std::optional<KvCache> cache;
  std::optional<StateCache> states;
  Status opened;

 private:
  // f(layer, view, entry, positions up to its end) for all entries that position n may see.
  template <typename F>
  void for_each_entry(int64_t n, F&& f) {
    for (size_t layer = 0; layer < options_.layers.size(); ++layer) {
      const KvView view = cache->view(kSlot, static_cast<int>(layer));
      const KvLayer& shape = options_.layers[layer];
      if (view.data == nullptr) continue;
      const int64_t first = shape.window > 0 ? std::max<int64_t>(0, n - shape.window + 1) : 0;
      for (int64_t entry = first; entry < n / shape.rate; ++entry) f(layer, view, entry, (entry + 1) * shape.rate);
    }
  }
  template <typename F>
  void for_each_state(F&& f) {
    for (size_t layer = 0; layer < options_.states.size(); ++layer)
      for (int64_t i = 0; i < options_.states[layer]; ++i) f(states->state(kSlot, static_cast<int>(layer))[i], i);
  }
  void poison_slot(std::byte poison) {
    for (size_t layer = 0; layer < options_.layers.size(); ++layer) {
      const KvView view = cache->view(kSlot, static_cast<int>(layer));
      if (view.data != nullptr) std::fill_n(view.data, view.bytes(), poison);
    }
  }

  const TestModelOptions options_;
  PrefixGeometry geometry_;
  std::mutex mutex_;
  std::vector<std::string> lines_;

 public:
  std::unique_ptr<PrefixCache> prefixes;  // ends first
};

}  // namespace colibri::kv

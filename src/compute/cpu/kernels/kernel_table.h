// KernelTable: what one instruction set level offers, as plain functions. The backend calls them; kernels/*.cc define
// them.
//
// Every table gives the same bits for the same input: the kernels are written once (tile_inl.h, rows_inl.h,
// attention_inl.h, router_inl.h) over a 16-lane float vector (vec_*.h) whose operations are IEEE-exact on every level.
// Included by translation units with different instruction set flags, so: plain structs and C headers only, nothing
// that a linker could merge.
// Thread-safety: pure functions of their arguments.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/activation.h"
#include "compute/cpu/kernels/router_params.h"
#include "compute/cpu/kernels/streams.h"
#include "tensor/expanded_strip.h"

namespace colibri::compute {

constexpr int kLanes = 16;          ///< floats of one vector, outputs of one panel
constexpr int kMaxTileRows = 12;    ///< most rows of one tile on any level
constexpr int kStripWidth = 256;    ///< inputs of one strip of a quantised panel
constexpr int kMaxDotPanels = 2;    ///< panels that a level multiplies side by side
constexpr int kMaxTiledRows = 128;  ///< most rows of a product on a level with matrix tiles
constexpr int kTileSumInts = 2048;  ///< sums that such a level computes before it looks at them
constexpr int kProducts = 16;       ///< of KernelTable
constexpr int kKeyTileWidth = 64;   ///< keys of one step of the online softmax
constexpr int kAttentionRows = 96;  ///< query rows of one attention call

/// c[r, n] (+)= sum over k of a[k, r] * w[n, k] for one tile of rows, ascending k, one chain of fma per element.
struct TileJob {
  const float* a = nullptr;  ///< packed activations [k][rows]; one row needs no packing
  int64_t rows = 0;          ///< 1 .. max_tile_rows
  int64_t k = 0;
  const void* panels = nullptr;  ///< first panel, encoded as the function says
  int64_t panel_stride = 0;      ///< bytes from one panel to the next
  int64_t n = 0;                 ///< outputs, counted from the first panel's first
  const float* bias = nullptr;   ///< [n], added last; or null
  float* c = nullptr;            ///< output of row 0, panel 0
  int64_t c_stride = 0;          ///< floats from one row to the next
  bool accumulate = false;       ///< the chains start from c instead of 0
};

/// Up to 256 inputs of one row as 8-bit numbers: x is about scale * q. Elements beyond the row's end are 0.
struct alignas(64) ActivationStrip {
  int8_t q[kStripWidth];                ///< x / scale to the nearest whole number, halves to even; in [-127, 127]
  int16_t sums[kStripWidth / 16];       ///< of q, over runs of 16
  int16_t pair_sums[kStripWidth / 32];  ///< of q, over runs of 32, in the order 0, 4, 1, 5, 2, 6, 3, 7
  float scale;                          ///< largest |x| / 127; NaN when an x is not finite, 0 when all are about 0
};

/// What levels with matrix tiles keep between their steps (amx_inl.h).
struct alignas(64) TileScratch {
  int8_t rows[kMaxTiledRows][kStripWidth];  ///< activations of a strip
  uint8_t lines[2][2][kStripWidth * 16];    ///< weights of a strip, of two panels in turn
  int32_t sums[2][kTileSumInts];
};

/// c[r, n] = sum over k of x[r, k] * w[n, k] for 8-bit activations and a quantised encoding. Per strip, sums of
/// products are whole numbers and exact; the float part is a fixed chain (product_inl.h).
struct ProductJob {
  const ActivationStrip* const* x = nullptr;  ///< [rows]: each row's strips
  int64_t rows = 0;
  int64_t k = 0;
  const void* panels = nullptr;  ///< first panel, encoded as the function says
  int64_t panel_stride = 0;      ///< bytes from one panel to the next
  int64_t n = 0;                 ///< outputs, counted from the first panel's first
  const float* bias = nullptr;   ///< [n], added last; or null
  float* c = nullptr;            ///< output of row 0, panel 0
  int64_t c_stride = 0;          ///< floats from one row to the next
  ExpandStrip expand = nullptr;  ///< block encodings: how a strip is expanded
  int64_t strip_stride = 0;      ///< block encodings: bytes from one strip to the next
  float* sums = nullptr;         ///< scratch [rows][kMaxDotPanels * 16]
  TileScratch* tiles = nullptr;  ///< scratch
};

/// How numbers are kept in a cache; the same as KvType of tensor/kv_view.h.
enum KvElements { kKvF32, kKvF16, kKvQ8 };

/// The tiles of one KV head (tensor/kv_view.h): keys, then values at value_offset. A ring of n_tiles.
struct KvTiles {
  unsigned char* tiles = nullptr;
  int64_t n_tiles = 0;
  int64_t tile_bytes = 0;
  int64_t value_offset = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  KvElements type = kKvF32;
  bool latent = false;  ///< values are not stored: they are the first value_dim channels of the keys
};

/// Writes keys and values of one head, [rows, key_dim] and [rows, value_dim], at positions first_position,
/// first_position + 1 ... Values are not looked at where the tiles store none.
struct KvAppendJob {
  KvTiles kv;
  const float* keys = nullptr;
  const float* values = nullptr;
  int64_t key_stride = 0;  ///< floats from one row to the next
  int64_t value_stride = 0;
  int64_t rows = 0;
  int64_t first_position = 0;
};

/// Attention of some query rows of one KV head: Backend::attention. The rows of a segment and the heads of a group are
/// one list: item i is row i / group, head i % group.
struct AttentionJob {
  KvTiles kv;
  const float* q = nullptr;           ///< the segment's first row, the group's first head
  float* out = nullptr;               ///< likewise
  const float* sinks = nullptr;       ///< the group's first head; or null
  const uint64_t* allowed = nullptr;  ///< the segment's first row; or null
  int64_t q_stride = 0;               ///< floats from one row to the next
  int64_t out_stride = 0;
  int64_t allowed_stride = 0;  ///< words, likewise
  int64_t window = 0;          ///< 0: all
  int64_t chunk = 0;           ///< 0: all
  int64_t group = 1;
  int64_t first_item = 0;
  int64_t items = 0;           ///< 1 .. kAttentionRows
  int64_t first_position = 0;  ///< of the segment's first row
  float scale = 1.0f;
  float soft_cap = 0;        ///< 0: none
  KvTiles entries;           ///< a second set of keys of the same shape; `allowed` is of these then
  int64_t rate = 0;          ///< positions that an entry stands for; 0: no entries
  float* scratch = nullptr;  ///< attention_scratch_floats(key_dim, value_dim)
};

/// Queries and outputs, scores and sums of every item, and one tile of keys and values as floats.
constexpr int64_t attention_scratch_floats(int64_t key_dim, int64_t value_dim) {
  const int64_t widths = (key_dim + kLanes - 1) / kLanes * kLanes + (value_dim + kLanes - 1) / kLanes * kLanes;
  return kAttentionRows * (widths + kKeyTileWidth + kLanes) + kKeyTileWidth * widths;
}

/// Scores of the keys [first_key, end_key) for one row: Backend::select_keys.
struct IndexJob {
  KvTiles kv;
  const float* q = nullptr;        ///< [heads, key_dim]
  const float* weights = nullptr;  ///< [heads]
  int64_t heads = 0;
  int64_t first_key = 0;  ///< of a tile
  int64_t end_key = 0;
  float* scores = nullptr;   ///< [end_key - first_key, rounded up to whole tiles]: never -0
  float* scratch = nullptr;  ///< index_scratch_floats(heads, key_dim)
};

/// Queries, the products of a tile of them, and one tile of keys as floats.
constexpr int64_t index_scratch_floats(int64_t heads, int64_t key_dim) {
  return heads * key_dim + kMaxTileRows * kKeyTileWidth + kKeyTileWidth * key_dim;
}

/// One row of heads, head_dim floats from one to the next: 2 * half elements of each turn by the angles of cos and sin
/// [half].
struct RopeJob {
  float* row = nullptr;  ///< the first of those elements
  int64_t heads = 0;
  int64_t head_dim = 0;
  const float* cos = nullptr;
  const float* sin = nullptr;
  int64_t half = 0;
  bool interleaved = false;
  bool inverse = false;
};

/// Experts and weights of rows of logits: Backend::route. With `given`, weights alone: Backend::weigh.
struct RouteJob {
  const float* logits = nullptr;  ///< [rows, n_experts]
  int64_t rows = 0;
  RouterParams params;
  int32_t* ids = nullptr;    ///< [rows, top_k]
  float* weights = nullptr;  ///< [rows, top_k]
  const int32_t* given = nullptr;
};

struct KernelTable {
  int max_tile_rows;
  void (*pack_tile)(const float* const* x, int64_t rows, int64_t k, float* a);  ///< rows as TileJob::a wants them
  void (*tile[3])(const TileJob* job);                                          ///< by Encoding: f32, f16, bf16
  void (*product[kProducts])(const ProductJob* job);                            ///< by product_index(Encoding)
  void (*quantise)(const float* x, int64_t k, ActivationStrip* strips);
  void (*append_kv)(const KvAppendJob* job);
  void (*attention)(const AttentionJob* job);
  void (*index_scores)(const IndexJob* job);
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* y);
  void (*add)(float* x, float factor, const float* y, int64_t n);  ///< x += factor * y in two roundings
  void (*clamp)(float* x, float limit, int64_t n);
  void (*activate)(const Activation& activation, const float* gate, const float* up, int64_t n, float* out);
  void (*scale_by_sigmoid)(float* x, const float* gate, int64_t gates, int64_t each);
  void (*rope)(const RopeJob* job);
  void (*route)(const RouteJob* job);
  void (*add_scaled)(float* sum, float factor, const float* x, int64_t n);  ///< sum = fma(factor, x, sum)
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, int64_t n, float* y);
  void (*scale)(float* x, float factor, int64_t n);
  void (*multiply)(float* x, const float* y, int64_t n);
  void (*soft_cap)(float* x, float cap, int64_t n);
  void (*stream_weights)(const StreamParams& params, bool adds, float* weights);
  void (*collapse_streams)(const float* x, const float* weights, int64_t streams, int64_t n, float* out);
  void (*expand_streams)(float* x, const float* weights, const float* y, int64_t streams, int64_t n);
};

extern const KernelTable kScalarKernels;
extern const KernelTable kSse4Kernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvxVnniKernels;
extern const KernelTable kAvx512Kernels;
extern const KernelTable kAmxKernels;

}  // namespace colibri::compute

// Several residual streams in place of one (hyper-connections, arXiv 2409.19606, in the form of mHC, arXiv 2512.24880):
// what a block reads and what it adds to depends on weights that come out of the streams themselves.
#include <cstring>

#include "model/decoder.h"

namespace colibri::model {

// All of them begin as the token's embedding.
void Decoder::begin_streams(Rows x) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t s = 0; s < parts_.spec->streams.n; ++s)
      std::memcpy(ws_.streams.row(r) + s * x.width, x.row(r), static_cast<size_t>(x.width) * sizeof(float));
}

// ws_.x = what the block reads. The weights by which it adds stay in ws_.stream_weights.
void Decoder::read_streams(const StreamWeights& w, int64_t rows) {
  compute::Backend& backend = *parts_.backend;
  const StreamSpec& s = parts_.spec->streams;
  const Rows streams = ws_.streams.slice(0, rows), normed = ws_.normed_streams.slice(0, rows),
             weights = ws_.stream_weights.rows(rows, w.logits.n);
  backend.rms_norm(streams, nullptr, parts_.spec->norm_eps, normed);
  backend.matmul(normed, w.logits, nullptr, weights);
  backend.stream_weights(weights, {s.n, s.iterations, s.eps, w.scale, w.base});
  backend.collapse_streams(streams, weights, ws_.x.slice(0, rows));
}

void Decoder::add_to_streams(Rows y) {
  const int64_t n = parts_.spec->streams.n;
  parts_.backend->expand_streams(ws_.streams.slice(0, y.rows), ws_.stream_weights.rows(y.rows, (2 + n) * n), y);
}

}  // namespace colibri::model

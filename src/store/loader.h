// Loader: brings many matrices in with several threads, in the order in which their bytes lie in the files.
//
// Every matrix is cut into pieces, and pieces that are neighbours in a file are read together, a few megabytes at a
// time; so the disk sees one sequential stream of large reads while other threads pack. Called while a model opens.
// Thread-safety: one call uses its own threads and the calling one; `progress` is called on the calling thread only.
// Invariant: what is reported is the error that comes first in the order of the files, whatever the threads did.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "formats/catalog.h"
#include "store/matrix_source.h"

namespace colibri::store {

/// Called with the bytes read since the last call; false stops the load.
using LoadProgress = std::function<bool(int64_t bytes)>;

/// A matrix and the memory that it goes into (source.packed_size() bytes, 64-byte aligned).
struct LoadJob {
  MatrixSource source;
  std::byte* dst = nullptr;
};

/// What becomes of the page cache's copy of what was read.
enum class PageCache { kKeep, kForget };

/// Loads all jobs. Errors name file and tensor; kCancelled when `progress` returns false. `staging` is shared by
/// `threads` threads. REQUIRES: threads >= 1; staging has threads * need.bytes() for a need that covers all sources.
Status load_matrices(const formats::TensorCatalog& catalog, std::span<const LoadJob> jobs, int threads,
                     std::span<std::byte> staging, const LoadProgress& progress, PageCache cache = PageCache::kKeep);

}  // namespace colibri::store

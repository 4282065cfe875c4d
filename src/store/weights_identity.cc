#include "store/weights_identity.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "store/heat_file.h"

namespace colibri::store {
namespace {

constexpr int64_t kSamples = 16, kSampleBytes = 4096;

// Evenly, from the first byte of the file to its last.
Status add_samples(const platform::File& file, Fnv1a& hash) {
  const int64_t bytes = std::min(kSampleBytes, file.size_bytes()), last = file.size_bytes() - bytes;
  std::vector<std::byte> sample(static_cast<size_t>(bytes));
  for (int64_t i = 0; i < kSamples; ++i) {
    COLIBRI_TRY(file.read_at(last * i / (kSamples - 1), sample));
    hash.add_bytes(sample);
  }
  return {};
}

}  // namespace

Result<uint64_t> weights_identity(const formats::TensorCatalog& catalog) {
  Fnv1a hash;
  hash.add(model_identity(catalog));
  for (const platform::File& file : catalog.files()) {
    hash.add(static_cast<uint64_t>(file.modified_ns()));
    COLIBRI_TRY(add_samples(file, hash));
  }
  return hash.value();
}

}  // namespace colibri::store

#include "store/matrix_source.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "store/file_rows.h"

namespace colibri::store {
namespace {

constexpr int64_t kPreferredRead = 4 << 20;  // bytes per read: large enough that the disk's latency does not show

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

// [first, end)
struct Range {
  int64_t first, end;
};

int64_t block_of(const MatrixSource& source) { return source.block > 0 ? source.block : source.n; }
int64_t stride_of(const MatrixSource& source) { return source.block > 0 ? source.stride : source.n; }
bool straight_rows(const MatrixSource& source) {
  return !source.transposed && (source.block == 0 || source.stride == source.block || source.block >= source.n);
}

// R(i) without interleaved heads, which move rows within a piece only.
int64_t in_blocks(const MatrixSource& source, int64_t row) {
  if (source.block == 0) return source.first_row + row;
  return source.first_row + row / source.block * source.stride + row % source.block;
}

Range file_rows(const MatrixSource& source, int64_t first, int64_t count) {
  if (source.transposed) return {source.first_input + first, source.first_input + first + count};
  return {in_blocks(source, first), in_blocks(source, first + count - 1) + 1};
}

// At most so many file rows hold a piece of `length`, and with it what another matrix has between its rows.
int64_t most_file_rows(const MatrixSource& source, int64_t length) {
  if (source.transposed || straight_rows(source)) return length;
  const int64_t blocks = (length + block_of(source) - 2) / block_of(source) + 1;
  return std::min(blocks, divide_up(source.n, block_of(source))) * stride_of(source);
}

int64_t most_own_bytes(const MatrixSource& source, int64_t length) {
  const Part own = source.own();
  const int64_t rows = (most_file_rows(source, length) + 2 * own.rows_each - 2) / own.rows_each;
  return std::min(rows * own.row_bytes, own.tensor->bytes);
}

Extent extent_of(const Part& part, Range rows) {
  if (part.rows_each == 0) return {part.tensor, 0, part.tensor->bytes};
  const int64_t first = rows.first / part.rows_each * part.row_bytes;
  const int64_t end = divide_up(rows.end, part.rows_each) * part.row_bytes;
  return {part.tensor, first, std::min(end, part.tensor->bytes) - first};
}

// The parts beside the tensor itself.
template <typename Visit>
void each_side(const MatrixSource& source, Visit visit) {
  const Codes& codes = source.codes;
  for (const Part* part : {&codes.scales, &codes.zeros, &codes.group_index, &codes.global})
    if (part->tensor != nullptr) visit(*part);
}

Extents extents_in(const MatrixSource& source, Range rows) {
  Extents extents;
  extents.list[static_cast<size_t>(extents.count++)] = extent_of(source.own(), rows);
  each_side(source,
            [&](const Part& part) { extents.list[static_cast<size_t>(extents.count++)] = extent_of(part, rows); });
  return extents;
}

// Pieces begin at multiples of this.
int64_t piece_step(const MatrixSource& source) {
  const int64_t codes_per_row = std::max<int64_t>(1, source.codes.rows_each);
  if (source.transposed) return is_quantised(source.encoding) ? std::lcm(kStripInputs, codes_per_row) : codes_per_row;
  if (source.interleaved_heads == 0) return kPanelWidth;
  return std::lcm(int64_t{kPanelWidth}, source.n / source.interleaved_heads);
}

// What a part has for this matrix alone.
int64_t share_of(const MatrixSource& source, const Part& part) {
  if (part.rows_each == 0) return part.tensor->bytes;
  if (!source.transposed) return divide_up(source.n, part.rows_each) * part.row_bytes * source.k / source.width();
  return divide_up(source.k, part.rows_each) * part.row_bytes * source.n / source.width();
}

bool whole_rows(const MatrixSource& source) { return !source.transposed && source.width() == source.k; }

// Exponents for groups of 32 inputs, which is what kMXFP4 has.
bool is_mxfp4(const MatrixSource& source) {
  const Codes& codes = source.codes;
  return codes.decoding == Decoding::kFp4 && codes.group == 32 && codes.scales.tensor->dtype != DType::kF8E4M3 &&
         codes.global.tensor == nullptr && source.k % 32 == 0;
}

// A scale, and a zero, for whole groups of kCodeGroup inputs, and no rounding in scale * zero: products of 8-bit zeros
// with scales of at most 11 bits are exact.
bool has_code_groups(const MatrixSource& source) {
  const Codes& codes = source.codes;
  const bool by_inputs = codes.decoding == Decoding::kGptq || codes.decoding == Decoding::kAwq;
  if (codes.decoding == Decoding::kFp4 || codes.act_order || codes.group % kCodeGroup != 0) return false;
  if (source.k % kCodeGroup != 0 || source.first_input % kCodeGroup != 0) return false;
  if (by_inputs ? !source.transposed || source.block > 0 : !whole_rows(source)) return false;
  return codes.decoding == Decoding::kFp8 || codes.scales.tensor->dtype != DType::kF32;
}

}  // namespace

Encoding best_encoding(const MatrixSource& source) {
  if (source.codes.decoding == Decoding::kType) {
    const Encoding encoding = encoding_for(source.tensor->dtype).value_or(Encoding::kF32);
    return whole_rows(source) || !is_quantised(encoding) ? encoding : Encoding::kF32;
  }
  if (whole_rows(source) && is_mxfp4(source)) return Encoding::kMXFP4;
  if (!has_code_groups(source)) return Encoding::kF32;
  if (source.codes.decoding == Decoding::kFp8) return Encoding::kF8E4M3;
  return source.codes.bits <= 4 && source.tensor->dtype != DType::kI8 ? Encoding::kCodes4 : Encoding::kCodes8;
}

MatrixSource select_rows(const MatrixSource& whole, int64_t first, int64_t n, int64_t block, int64_t stride) {
  MatrixSource source = whole;
  source.first_row = first;
  source.n = n;
  source.block = block;
  source.stride = stride;
  source.encoding = best_encoding(source);
  return source;
}

MatrixSource select_transposed(const MatrixSource& whole, int64_t first, int64_t n, int64_t first_input, int64_t k,
                               int64_t block, int64_t stride) {
  MatrixSource source = whole;
  source.transposed = !whole.transposed;
  source.file_width = whole.width();
  source.first_input = first_input;
  source.k = k;
  return select_rows(source, first, n, block, stride);
}

Part MatrixSource::own() const {
  if (codes.decoding != Decoding::kType) return {tensor, codes.rows_each, codes.row_bytes};
  const DTypeInfo& type = info(tensor->dtype);
  return {tensor, 1, width() / type.block_elements * type.block_bytes};
}

int64_t MatrixSource::file_size() const {
  if (n == 0) return 0;
  int64_t bytes = share_of(*this, own());
  each_side(*this, [&](const Part& part) { bytes += share_of(*this, part); });
  return bytes;
}

int64_t MatrixSource::file_row(int64_t row) const {
  return in_blocks(*this, interleaved_heads > 0 ? interleaved_row(row, n / interleaved_heads) : row);
}

int64_t Extents::bytes() const {
  int64_t sum = 0;
  for (const Extent& extent : *this) sum += extent.bytes;
  return sum;
}

Extents extents_of(const MatrixSource& source, int64_t first, int64_t count) {
  return extents_in(source, file_rows(source, first, count));
}

Extents extents_of_both(const MatrixSource& a, const MatrixSource& b, int64_t first, int64_t count) {
  const Range in_a = file_rows(a, first, count), in_b = file_rows(b, first, count);
  return extents_in(a, {std::min(in_a.first, in_b.first), std::max(in_a.end, in_b.end)});
}

bool interleaved_with(const MatrixSource& a, const MatrixSource& b) {
  if (a.n == 0 || a.tensor != b.tensor || a.transposed != b.transposed || a.n != b.n || a.k != b.k) return false;
  if (a.encoding != b.encoding || a.interleaved_heads != b.interleaved_heads) return false;
  if (a.transposed) return a.first_input == b.first_input;
  return !straight_rows(a) && a.block == b.block && a.stride == b.stride &&
         a.first_row / a.stride == b.first_row / b.stride;
}

int64_t least_read_bytes(const MatrixSource& source) {
  return source.n == 0 ? 0 : most_own_bytes(source, std::min(source.length(), piece_step(source)));
}

int64_t side_bytes(const MatrixSource& source) {
  if (source.n == 0) return 0;
  Range all = file_rows(source, 0, source.length());
  if (!straight_rows(source) && !source.transposed) {
    all.first = all.first / source.stride * source.stride;
    all.end = round_up(all.end, source.stride);
  }
  int64_t bytes = 0;
  each_side(source, [&](const Part& part) { bytes += extent_of(part, all).bytes; });
  return bytes;
}

void StagingNeed::cover(const MatrixSource& source) {
  if (source.n == 0) return;
  const int64_t all = most_own_bytes(source, source.length());
  const int64_t wanted = std::max(least_read_bytes(source), std::min(kPreferredRead, all));
  read_bytes = std::max(read_bytes, round_up(wanted, kLineBytes));
  side_bytes = std::max(side_bytes, round_up(store::side_bytes(source), kLineBytes));
  scratch_bytes = std::max(scratch_bytes, round_up(store::scratch_bytes(source), kLineBytes));
}

int64_t piece_length(const MatrixSource& source, int64_t read_bytes) {
  if (most_own_bytes(source, source.length()) <= read_bytes) return source.length();
  const int64_t step = piece_step(source);
  int64_t fits = 0, too_many = divide_up(source.length(), step);
  while (too_many - fits > 1) {
    const int64_t steps = (fits + too_many) / 2;
    (most_own_bytes(source, steps * step) <= read_bytes ? fits : too_many) = steps;
  }
  COLIBRI_CHECK(fits >= 1);
  return fits * step;
}

Status read_extents(const formats::TensorCatalog& catalog, const Extents& extents, std::span<std::byte> memory,
                    RawParts& raw) {
  for (size_t i = 0; i < static_cast<size_t>(extents.count); ++i) {
    const Extent& extent = extents.list[i];
    const auto part = memory.first(static_cast<size_t>(extent.bytes));
    COLIBRI_TRY(catalog.read(*extent.tensor, extent.first, part));
    raw[i] = part;
    memory = memory.subspan(part.size());
  }
  return {};
}

Status load_matrix(const formats::TensorCatalog& catalog, const MatrixSource& source, std::span<std::byte> staging,
                   std::byte* dst) {
  if (source.n == 0) return {};
  StagingNeed need;
  need.cover(source);
  const auto scratch = staging.first(static_cast<size_t>(need.scratch_bytes));
  staging = staging.subspan(scratch.size());
  const int64_t length =
      piece_length(source, static_cast<int64_t>(staging.size()) - round_up(side_bytes(source), kLineBytes));
  for (int64_t first = 0; first < source.length(); first += length) {
    const int64_t count = std::min(length, source.length() - first);
    const Extents extents = extents_of(source, first, count);
    RawParts raw;
    COLIBRI_TRY(read_extents(catalog, extents, staging, raw));
    COLIBRI_TRY(pack_piece(source, first, count, extents, raw, scratch, dst));
  }
  return {};
}

}  // namespace colibri::store

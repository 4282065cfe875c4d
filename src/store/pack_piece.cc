// From the bytes of a piece, as they were read, to panels.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "formats/layout.h"
#include "store/file_rows.h"
#include "store/matrix_source.h"

namespace colibri::store {
namespace {

// The file type whose blocks pack_rows turns into the encoding.
DType file_type(Encoding encoding) {
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i)
    if (encoding_for(static_cast<DType>(i)) == encoding) return static_cast<DType>(i);
  check_failed("file_type: the encoding has one", __FILE__, __LINE__);
}

// The tensor's rows are what the encoding holds: nothing needs to be decoded.
bool as_it_is(const MatrixSource& source) {
  return source.codes.decoding == Decoding::kType && encoding_for(source.tensor->dtype) == source.encoding;
}

int64_t bytes_in(DType dtype, int64_t elements) {
  const DTypeInfo& type = info(dtype);
  return elements / type.block_elements * type.block_bytes;
}

// Only some of the columns.
bool picks_columns(const MatrixSource& source) { return !source.transposed && source.width() != source.k; }

// [blocks of 16 bytes: codes 2 j and 2 j + 1 in byte j] and [exponents] to blocks of exponent and 16 bytes: codes j and
// j + 16 in byte j.
void fp4_to_mxfp4(const std::byte* codes, const std::byte* exponents, int64_t k, std::byte* out) {
  const auto nibble = [](const std::byte* block, int i) { return block[i / 2] >> i % 2 * 4 & std::byte{15}; };
  for (int64_t group = 0; group < k / 32; ++group, codes += 16, out += 17) {
    out[0] = exponents[group];
    for (int j = 0; j < 16; ++j) out[1 + j] = nibble(codes, j) | nibble(codes, j + 16) << 4;
  }
}

// One row in the file type of the encoding. `wide`: room for a whole file row of floats.
void write_row(const MatrixSource& source, const FileRows& rows, int64_t file_row, float* wide, std::byte* out) {
  if (as_it_is(source)) {
    const DType dtype = source.tensor->dtype;
    std::memcpy(out, rows.own(file_row) + bytes_in(dtype, source.first_input),
                static_cast<size_t>(bytes_in(dtype, source.k)));
  } else if (source.encoding == Encoding::kMXFP4) {
    fp4_to_mxfp4(rows.own(file_row), rows.scales(file_row), source.k, out);
  } else if (picks_columns(source)) {
    rows.decode(file_row, wide);
    std::memcpy(out, wide + source.first_input, static_cast<size_t>(source.k) * sizeof(float));
  } else {
    rows.decode(file_row, reinterpret_cast<float*>(out));
  }
}

// Panel by panel, so that one panel of rows is all that is needed between.
void pack_by_rows(const MatrixSource& source, int64_t first, int64_t count, const FileRows& rows,
                  std::span<std::byte> scratch, std::byte* dst) {
  const DType dtype = file_type(source.encoding);
  const int64_t bytes = bytes_in(dtype, source.k);
  auto* wide = reinterpret_cast<float*>(scratch.data() + kPanelWidth * bytes);
  for (int64_t row = first; row < first + count; row += kPanelWidth) {
    const int64_t n = std::min<int64_t>(kPanelWidth, first + count - row);
    for (int64_t i = 0; i < n; ++i) write_row(source, rows, source.file_row(row + i), wide, scratch.data() + i * bytes);
    pack_rows(dtype, scratch.data(), row, n, source.n, source.k, dst);
  }
}

bool is_codes(Encoding encoding) {
  return encoding == Encoding::kCodes4 || encoding == Encoding::kCodes8 || encoding == Encoding::kF8E4M3;
}

/// Room for the codes of `inputs` inputs of a panel's outputs, and their scales.
struct CodePanel {
  CodePanel(std::span<std::byte> scratch, int64_t inputs)
      : groups(inputs / kCodeGroup),
        scales(reinterpret_cast<float*>(scratch.data())),
        minimums(scales + kPanelWidth * groups),
        codes(reinterpret_cast<uint8_t*>(minimums + kPanelWidth * groups)) {}

  static int64_t bytes(int64_t inputs) {
    return kPanelWidth * (inputs + 2 * inputs / kCodeGroup * static_cast<int64_t>(sizeof(float)));
  }
  void pack(Encoding encoding, int64_t rows, int64_t inputs, std::byte* dst) const {
    pack_codes(encoding, {rows, codes, scales, encoding == Encoding::kF8E4M3 ? nullptr : minimums}, inputs, dst);
  }

  int64_t groups;
  float *scales, *minimums;
  uint8_t* codes;
};

void pack_codes_by_rows(const MatrixSource& source, int64_t first, int64_t count, const FileRows& rows,
                        std::span<std::byte> scratch, std::byte* dst) {
  const CodePanel panel(scratch, source.k);
  dst += first / kPanelWidth * panel_bytes(source.encoding, source.k);
  for (int64_t row = first; row < first + count; row += kPanelWidth) {
    const int64_t n = std::min<int64_t>(kPanelWidth, first + count - row);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t file_row = source.file_row(row + i);
      const RowParts parts = rows.parts(file_row);
      decode_codes(source, file_row, parts, 0, source.k, panel.codes + i * source.k);
      decode_scales(source, file_row, parts, 0, kCodeGroup, panel.groups, panel.scales + i * panel.groups,
                    panel.minimums + i * panel.groups);
    }
    panel.pack(source.encoding, n, source.k, dst);
    dst += panel_bytes(source.encoding, source.k);
  }
}

// One strip of one panel, from the file's rows, which are inputs.
void gather_strip(const MatrixSource& source, const FileRows& rows, int64_t input, int64_t inputs, int64_t column,
                  int64_t n, const CodePanel& panel) {
  for (int64_t i = 0; i < inputs; ++i) {
    const int64_t file_row = source.first_input + input + i;
    uint8_t line[kPanelWidth];
    decode_codes(source, file_row, rows.parts(file_row), column, n, line);
    for (int64_t o = 0; o < n; ++o) panel.codes[o * inputs + i] = line[o];
  }
  for (int64_t g = 0; g < inputs / kCodeGroup; ++g) {
    const int64_t file_row = source.first_input + input + g * kCodeGroup;
    float scales[kPanelWidth], minimums[kPanelWidth];
    decode_scales(source, file_row, rows.parts(file_row), column, 1, n, scales, minimums);
    for (int64_t o = 0; o < n; ++o) {
      panel.scales[o * (inputs / kCodeGroup) + g] = scales[o];
      panel.minimums[o * (inputs / kCodeGroup) + g] = minimums[o];
    }
  }
}

// Strip by strip: a panel of the strip's inputs alone is one strip.
void pack_codes_by_inputs(const MatrixSource& source, int64_t first, int64_t count, const FileRows& rows,
                          std::span<std::byte> scratch, std::byte* dst) {
  const int64_t bytes = panel_bytes(source.encoding, source.k);
  for (int64_t input = first; input < first + count; input += kStripInputs) {
    const int64_t inputs = std::min<int64_t>(kStripInputs, first + count - input);
    const CodePanel panel(scratch, inputs);
    std::byte* strip = dst + input / kStripInputs * strip_bytes(source.encoding, kStripInputs);
    for (int64_t row = 0; row < source.n; row += kPanelWidth, strip += bytes) {
      const int64_t n = std::min<int64_t>(kPanelWidth, source.n - row);
      gather_strip(source, rows, input, inputs, source.first_row + row, n, panel);
      panel.pack(source.encoding, n, inputs, strip);
    }
  }
}

// One input of all outputs: 16 to each panel.
template <typename T>
void scatter(const MatrixSource& source, const std::byte* file_row, int64_t input, std::byte* dst) {
  constexpr int64_t kLine = kPanelWidth * sizeof(T);
  const int64_t block = source.block > 0 ? source.block : source.n;
  int64_t column = source.first_row, left = block;
  dst += input * kLine;
  for (int64_t row = 0; row < source.n; row += kPanelWidth, dst += source.k * kLine) {
    T line[kPanelWidth] = {};
    const int64_t n = std::min<int64_t>(kPanelWidth, source.n - row);
    for (int64_t i = 0; i < n; ++i, ++column) {
      if (left == 0) column += source.stride - block;
      left = left == 0 ? block : left;
      --left;
      std::memcpy(&line[i], file_row + column * static_cast<int64_t>(sizeof(T)), sizeof(T));
    }
    std::memcpy(dst, line, sizeof line);
  }
}

void pack_by_inputs(const MatrixSource& source, int64_t first, int64_t count, const FileRows& rows,
                    std::span<std::byte> scratch, std::byte* dst) {
  for (int64_t input = first; input < first + count; ++input) {
    const int64_t file_row = source.first_input + input;
    if (!as_it_is(source)) {
      rows.decode(file_row, reinterpret_cast<float*>(scratch.data()));
      scatter<uint32_t>(source, scratch.data(), input, dst);
    } else if (source.encoding == Encoding::kF32) {
      scatter<uint32_t>(source, rows.own(file_row), input, dst);
    } else {
      scatter<uint16_t>(source, rows.own(file_row), input, dst);
    }
  }
}

// Nothing between the file and the packed form: rows lie as they are wanted.
bool direct(const MatrixSource& source) {
  return as_it_is(source) && !source.transposed && source.interleaved_heads == 0 && !picks_columns(source) &&
         (source.block == 0 || source.block == source.stride || source.block >= source.n);
}

Error bad_group(const MatrixSource& source, int64_t input, int64_t group, const std::string& expected) {
  return {ErrorCode::kInvalidModel, "tensor " + formats::quoted(source.codes.group_index.tensor->name) + ": input " +
                                        std::to_string(input) + " is of group " + std::to_string(group) +
                                        ", expected " + expected + "; the file is damaged, fetch it again"};
}

}  // namespace

Status check_groups(const MatrixSource& source, int64_t first, int64_t count, const FileRows& rows) {
  const Codes& codes = source.codes;
  if (codes.group_index.tensor == nullptr) return {};
  const bool per_row = codes.group_index.rows_each != 0;
  for (int64_t i = 0; i < (per_row ? count : source.width()); ++i) {
    const int64_t input = per_row ? source.first_input + first + i : i;
    int32_t group;
    std::memcpy(&group, rows.group_index(input) + (per_row ? 0 : 4 * i), sizeof group);
    if (group < 0 || group >= codes.groups)
      return bad_group(source, input, group, "0 to " + std::to_string(codes.groups - 1));
    if (!codes.act_order && group != input / codes.group)
      return bad_group(source, input, group, std::to_string(input / codes.group) + " without act order");
  }
  return {};
}

int64_t scratch_bytes(const MatrixSource& source) {
  if (source.n == 0 || direct(source)) return 0;
  if (is_codes(source.encoding))
    return CodePanel::bytes(source.transposed ? std::min<int64_t>(kStripInputs, source.k) : source.k);
  const int64_t wide = source.width() * static_cast<int64_t>(sizeof(float));
  if (source.transposed) return as_it_is(source) ? 0 : wide;
  return kPanelWidth * bytes_in(file_type(source.encoding), source.k) + (picks_columns(source) ? wide : 0);
}

Status pack_piece(const MatrixSource& source, int64_t first, int64_t count, const Extents& extents, const RawParts& raw,
                  std::span<std::byte> scratch, std::byte* dst) {
  const FileRows rows(source, extents, raw);
  COLIBRI_TRY(check_groups(source, first, count, rows));
  if (source.transposed) {
    COLIBRI_CHECK(source.interleaved_heads == 0);
    const auto pack = is_codes(source.encoding) ? pack_codes_by_inputs : pack_by_inputs;
    pack(source, first, count, rows, scratch, dst);
  } else if (direct(source)) {
    pack_rows(source.tensor->dtype, rows.own(source.file_row(first)), first, count, source.n, source.k, dst);
  } else {
    const auto pack = is_codes(source.encoding) ? pack_codes_by_rows : pack_by_rows;
    pack(source, first, count, rows, scratch, dst);
  }
  return {};
}

}  // namespace colibri::store

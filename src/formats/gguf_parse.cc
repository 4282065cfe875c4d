// The GGUF header: magic, version, counts, metadata key-values, tensor infos; then the data, aligned.
// Every count and length is compared with the bytes that the file still has before anything is allocated for it.
#include <algorithm>
#include <array>
#include <cstring>

#include "formats/foreign.h"
#include "formats/gguf.h"
#include "formats/layout.h"

namespace colibri::formats {
namespace {

constexpr int kMaxDims = 4;                         // ggml's own limit
constexpr int kMaxNesting = 4;                      // arrays of arrays; no published file nests at all
constexpr int64_t kMaxElements = int64_t{8} << 20;  // of all metadata arrays: six times the largest vocabularies known
constexpr uint32_t kDefaultAlignment = 32;

enum ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};
// Fewest bytes that a value of each type takes.
constexpr std::array<int64_t, 13> kMinBytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, int64_t file_bytes) : bytes_(bytes), file_bytes_(file_bytes) {}

  int64_t position() const { return position_; }
  /// Whether an error came from a prefix that was too short rather than from the file.
  bool needs_more() const { return needs_more_; }

  /// Checks that `n` more bytes are there to read.
  Status expect(uint64_t n) {
    const auto file_left = static_cast<uint64_t>(file_bytes_ - position_);
    if (n > file_left) {
      return invalid("truncated or damaged: " + std::to_string(n) + " bytes expected at offset " +
                     std::to_string(position_) + ", " + std::to_string(file_left) + " left of " +
                     std::to_string(file_bytes_));
    }
    needs_more_ = n > bytes_.size() - static_cast<size_t>(position_);
    if (needs_more_) return invalid("the header is longer than the bytes given");
    return {};
  }

  /// Checks that `count` items of at least `min_bytes` each are there to read.
  Status expect_items(uint64_t count, int64_t min_bytes, const char* what) {
    const int64_t left = file_bytes_ - position_;
    if (count > static_cast<uint64_t>(left / min_bytes)) {
      return invalid(std::to_string(count) + " " + what + " announced at offset " + std::to_string(position_) +
                     ", but only " + std::to_string(left) + " bytes follow");
    }
    return expect(count * static_cast<uint64_t>(min_bytes));
  }

  template <typename T>
  Result<T> number() {
    COLIBRI_TRY(expect(sizeof(T)));
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += static_cast<int64_t>(sizeof value);
    return value;
  }

  Result<std::string> string() {
    COLIBRI_ASSIGN(const uint64_t length, number<uint64_t>());
    COLIBRI_TRY(expect(length));
    const auto* text = reinterpret_cast<const char*>(bytes_.data()) + position_;
    position_ += static_cast<int64_t>(length);
    return std::string(text, static_cast<size_t>(length));
  }

 private:
  std::span<const std::byte> bytes_;
  int64_t file_bytes_;
  int64_t position_ = 0;
  bool needs_more_ = false;
};

class HeaderParser {
 public:
  HeaderParser(std::span<const std::byte> bytes, int64_t file_bytes, int file)
      : reader_(bytes, file_bytes), file_bytes_(file_bytes), file_(file) {}

  bool needs_more() const { return reader_.needs_more(); }

  Result<GgufHeader> parse() {
    COLIBRI_TRY(read_version());
    COLIBRI_ASSIGN(const uint64_t n_tensors, reader_.number<uint64_t>());
    COLIBRI_ASSIGN(const uint64_t n_keys, reader_.number<uint64_t>());
    COLIBRI_TRY(read_metadata(n_keys));
    COLIBRI_TRY(read_alignment());
    COLIBRI_TRY(read_tensors(n_tensors));
    COLIBRI_TRY(place_tensors());
    return std::move(header_);
  }

 private:
  Status read_version();
  Status read_metadata(uint64_t count);
  Status read_alignment();
  Status read_tensors(uint64_t count);
  Status place_tensors();

  Result<Json> value(uint32_t type, int nesting);
  Result<Json> array(int nesting);
  Result<Json> boolean();
  template <typename T, typename As>
  Result<Json> scalar() {
    COLIBRI_ASSIGN(const T number, reader_.number<T>());
    return Json(static_cast<As>(number));
  }
  Result<TensorInfo> tensor();
  Result<std::vector<int64_t>> dims();
  Result<DType> dtype();

  Reader reader_;
  int64_t file_bytes_;
  int file_;
  int64_t elements_ = 0;  // of all arrays so far
  uint32_t alignment_ = kDefaultAlignment;
  GgufHeader header_;
};

Status HeaderParser::read_version() {
  COLIBRI_ASSIGN(const uint32_t magic, reader_.number<uint32_t>());
  if (magic != 0x46554747) return invalid("is no GGUF file: it does not begin with \"GGUF\"");
  COLIBRI_ASSIGN(header_.version, reader_.number<uint32_t>());
  const uint32_t version = header_.version;
  if (version == 2 || version == 3) return {};
  if (version == 1) return invalid("is GGUF version 1, which is no longer in use: convert the original model again");
  if (version != 0 && (version & 0xffff) == 0)
    return invalid("is a big-endian GGUF file: convert it with gguf-convert-endian, or the original model again");
  return invalid("is GGUF version " + std::to_string(version) + "; 2 and 3 are known: a newer Colibri may read it");
}

Status HeaderParser::read_metadata(uint64_t count) {
  COLIBRI_TRY(reader_.expect_items(count, 8 + 4 + 1, "metadata keys"));
  Json::Object members;
  members.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    COLIBRI_ASSIGN(std::string key, reader_.string());
    COLIBRI_ASSIGN(const uint32_t type, reader_.number<uint32_t>());
    Result<Json> json = value(type, 0);
    if (!json.ok()) return std::move(json).with_context("key " + quoted(key)).error();
    members.emplace_back(std::move(key), *std::move(json));
  }
  std::vector<std::string_view> keys;
  for (const auto& [key, json] : members) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) return invalid("key " + quoted(*twice) + " is there twice");
  header_.metadata = std::move(members);
  return {};
}

Result<Json> HeaderParser::value(uint32_t type, int nesting) {
  switch (type) {
    case kUint8:
      return scalar<uint8_t, int64_t>();
    case kInt8:
      return scalar<int8_t, int64_t>();
    case kUint16:
      return scalar<uint16_t, int64_t>();
    case kInt16:
      return scalar<int16_t, int64_t>();
    case kUint32:
      return scalar<uint32_t, int64_t>();
    case kInt32:
      return scalar<int32_t, int64_t>();
    case kUint64:
      return scalar<uint64_t, uint64_t>();
    case kInt64:
      return scalar<int64_t, int64_t>();
    case kFloat32:
      return scalar<float, double>();
    case kFloat64:
      return scalar<double, double>();
    case kBool:
      return boolean();
    case kArray:
      return array(nesting + 1);
    case kString: {
      COLIBRI_ASSIGN(std::string text, reader_.string());
      return Json(std::move(text));
    }
    default:
      return invalid("value type " + std::to_string(type) + " is unknown");
  }
}

Result<Json> HeaderParser::boolean() {
  COLIBRI_ASSIGN(const uint8_t byte, reader_.number<uint8_t>());
  if (byte > 1) return invalid("boolean of value " + std::to_string(byte));
  return Json(byte == 1);
}

Result<Json> HeaderParser::array(int nesting) {
  if (nesting > kMaxNesting) return invalid("arrays nested deeper than " + std::to_string(kMaxNesting));
  COLIBRI_ASSIGN(const uint32_t type, reader_.number<uint32_t>());
  COLIBRI_ASSIGN(const uint64_t count, reader_.number<uint64_t>());
  if (type >= kMinBytes.size()) return invalid("array of unknown value type " + std::to_string(type));
  COLIBRI_TRY(reader_.expect_items(count, kMinBytes[type], "array elements"));
  elements_ += static_cast<int64_t>(count);  // no overflow: each count is below the file's size, and the check stops it
  if (elements_ > kMaxElements)
    return invalid("metadata arrays hold more than " + std::to_string(kMaxElements) + " elements");
  Json::Array items;
  items.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    COLIBRI_ASSIGN(Json item, value(type, nesting));
    items.push_back(std::move(item));
  }
  return Json(std::move(items));
}

Status HeaderParser::read_alignment() {
  const Json* value = header_.metadata.find("general.alignment");
  if (value == nullptr) return {};
  const bool fine = value->is_int() && value->as_int() > 0 && value->as_int() <= UINT32_MAX &&
                    (value->as_int() & (value->as_int() - 1)) == 0;
  if (!fine) return invalid("general.alignment is " + quoted(value->dump()) + ", a power of two is needed");
  alignment_ = static_cast<uint32_t>(value->as_int());
  return {};
}

Status HeaderParser::read_tensors(uint64_t count) {
  COLIBRI_TRY(reader_.expect_items(count, 8 + 4 + 4 + 8, "tensors"));
  header_.tensors.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    COLIBRI_ASSIGN(std::string name, reader_.string());
    Result<TensorInfo> info = tensor();
    if (!info.ok()) return std::move(info).with_context("tensor " + quoted(name)).error();
    info->name = std::move(name);
    header_.tensors.push_back(*std::move(info));
  }
  return {};
}

// The offset stays relative to the data, whose start is known only after the last tensor.
Result<TensorInfo> HeaderParser::tensor() {
  TensorInfo tensor;
  tensor.file = file_;
  COLIBRI_ASSIGN(const std::vector<int64_t> shape, dims());
  COLIBRI_ASSIGN(tensor.dtype, dtype());
  COLIBRI_ASSIGN(const uint64_t offset, reader_.number<uint64_t>());
  COLIBRI_ASSIGN(const Extent extent, checked_extent(tensor.dtype, shape, /*rows_of_blocks=*/true));
  if (offset % alignment_ != 0)
    return invalid("offset " + std::to_string(offset) + " is no multiple of the alignment " +
                   std::to_string(alignment_));
  if (offset > static_cast<uint64_t>(file_bytes_))
    return invalid("truncated or damaged: offset " + std::to_string(offset) + " is beyond the file's " +
                   std::to_string(file_bytes_) + " bytes; download or copy it again");
  tensor.shape = extent.shape;
  tensor.bytes = extent.bytes;
  tensor.offset = static_cast<int64_t>(offset);
  return tensor;
}

// Row-major: GGUF writes the fastest dimension first.
Result<std::vector<int64_t>> HeaderParser::dims() {
  COLIBRI_ASSIGN(const uint32_t n, reader_.number<uint32_t>());
  if (n > kMaxDims) return invalid(std::to_string(n) + " dimensions, at most " + std::to_string(kMaxDims));
  std::vector<int64_t> dims(n);
  for (uint32_t i = 0; i < n; ++i) {
    COLIBRI_ASSIGN(const uint64_t dim, reader_.number<uint64_t>());
    if (dim == 0 || dim > INT64_MAX) return invalid("dimension of " + std::to_string(dim) + " elements");
    dims[n - 1 - i] = static_cast<int64_t>(dim);
  }
  return dims;
}

Result<DType> HeaderParser::dtype() {
  COLIBRI_ASSIGN(const uint32_t id, reader_.number<uint32_t>());
  if (const auto dtype = dtype_from_gguf(id)) return *dtype;
  if (const auto removed = removed_gguf_type(id); !removed.empty()) {
    return invalid("type " + std::to_string(id) + " (" + std::string(removed) +
                   ") was removed from GGUF: quantise the original model again");
  }
  return invalid("type " + std::to_string(id) + " is unknown: a newer Colibri may read it");
}

Status HeaderParser::place_tensors() {
  const int64_t header_bytes = reader_.position();
  const int64_t data = (header_bytes + alignment_ - 1) / alignment_ * alignment_;
  for (TensorInfo& tensor : header_.tensors) {
    tensor.offset += data;  // below twice the file's size
    int64_t end;
    if (__builtin_add_overflow(tensor.offset, tensor.bytes, &end))
      return invalid("tensor " + quoted(tensor.name) + " of " + std::to_string(tensor.bytes) + " bytes has no end");
  }
  return check_ranges(header_.tensors, data, file_bytes_, Gaps::kAllowed);
}

}  // namespace

Result<GgufHeader> parse_gguf_header(std::span<const std::byte> bytes, int64_t file_bytes, int file, bool* needs_more) {
  *needs_more = false;
  HeaderParser parser(bytes.first(std::min(bytes.size(), static_cast<size_t>(file_bytes))), file_bytes, file);
  Result<GgufHeader> header = parser.parse();
  *needs_more = !header.ok() && parser.needs_more();
  return header;
}

}  // namespace colibri::formats

#include "text/sentencepiece_model.h"

#include <bit>
#include <functional>

#include "text/utf8.h"

namespace colibri::text {
namespace {

Error damaged(const std::string& what) {
  return {ErrorCode::kInvalidModel, what + "; this is no SentencePiece model, or a damaged one"};
}

/// One field of a protobuf message.
struct Field {
  uint32_t number = 0;
  uint64_t value = 0;      // varint, fixed 32 and 64
  std::string_view bytes;  // length-delimited
  bool is_bytes = false;

  bool flag() const { return value != 0; }
  int32_t integer() const { return static_cast<int32_t>(value); }
};

class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}
  bool done() const { return rest_.empty(); }

  Result<Field> next() {
    COLIBRI_ASSIGN(const uint64_t tag, varint());
    Field field;
    field.number = static_cast<uint32_t>(tag >> 3);
    if (field.number == 0 || tag >> 32 != 0) return damaged("a field without a number");
    switch (tag & 7) {
      case 0: {
        COLIBRI_ASSIGN(field.value, varint());
        return field;
      }
      case 1:
        return fixed(field, 8);
      case 2:
        return delimited(field);
      case 5:
        return fixed(field, 4);
      default:
        return damaged("a field of the wire type " + std::to_string(tag & 7));
    }
  }

 private:
  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return damaged("a number without its end");
  }

  Result<Field> fixed(Field field, size_t size) {
    if (rest_.size() < size) return damaged("a number that ends behind the file");
    for (size_t i = size; i-- > 0;) field.value = field.value << 8 | static_cast<uint8_t>(rest_[i]);
    rest_.remove_prefix(size);
    return field;
  }

  Result<Field> delimited(Field field) {
    COLIBRI_ASSIGN(const uint64_t size, varint());
    if (size > rest_.size()) {
      return damaged("field " + std::to_string(field.number) + " has " + std::to_string(size) + " bytes, " +
                     std::to_string(rest_.size()) + " are left");
    }
    field.bytes = rest_.substr(0, size);
    field.is_bytes = true;
    rest_.remove_prefix(size);
    return field;
  }

  std::string_view rest_;
};

Status each_field(std::string_view bytes, const std::function<Status(const Field&)>& visit) {
  for (Message message(bytes); !message.done();) {
    COLIBRI_ASSIGN(const Field field, message.next());
    COLIBRI_TRY(visit(field));
  }
  return {};
}

Status read_piece(std::string_view bytes, SentencePieceModel& model) {
  SentencePieceModel::Piece piece;
  COLIBRI_TRY(each_field(bytes, [&](const Field& field) -> Status {
    if (field.number == 1 && field.is_bytes) piece.text = field.bytes;
    if (field.number == 2 && !field.is_bytes) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == 3 && !field.is_bytes) piece.type = field.integer();
    return {};
  }));
  if (!is_valid_utf8(piece.text)) return damaged("piece " + std::to_string(model.pieces.size()) + " is no UTF-8");
  model.pieces.push_back(std::move(piece));
  return {};
}

Status read_trainer(std::string_view bytes, SentencePieceModel& model) {
  return each_field(bytes, [&](const Field& field) -> Status {
    if (field.is_bytes) return {};
    if (field.number == 3) model.algorithm = field.integer();
    if (field.number == 24) model.whitespace_as_suffix = field.flag();
    if (field.number == 35) model.byte_fallback = field.flag();
    if (field.number == 40) model.unknown_id = field.integer();
    if (field.number == 41) model.bos_id = field.integer();
    if (field.number == 42) model.eos_id = field.integer();
    return {};
  });
}

Status read_normalizer(std::string_view bytes, SentencePieceModel& model) {
  return each_field(bytes, [&](const Field& field) -> Status {
    if (field.number == 2 && field.is_bytes) model.precompiled_charsmap = field.bytes;
    if (field.is_bytes) return {};
    if (field.number == 3) model.add_dummy_prefix = field.flag();
    if (field.number == 4) model.remove_extra_whitespaces = field.flag();
    if (field.number == 5) model.escape_whitespaces = field.flag();
    return {};
  });
}

}  // namespace

Result<SentencePieceModel> SentencePieceModel::parse(std::string_view bytes) {
  SentencePieceModel model;
  COLIBRI_TRY(each_field(bytes, [&](const Field& field) -> Status {
    if (!field.is_bytes) return {};
    if (field.number == 1) return read_piece(field.bytes, model);
    if (field.number == 2) return read_trainer(field.bytes, model);
    if (field.number == 3) return read_normalizer(field.bytes, model);
    return {};
  }));
  if (model.pieces.empty()) return damaged("holds no pieces");
  return model;
}

}  // namespace colibri::text

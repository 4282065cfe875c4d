#include "expert_frames.h"

#include <algorithm>

#include "colibri/colibri.h"

namespace colibri::server {
namespace {

template <typename T>
void append_little_endian(std::string& out, uint64_t value) {
  const uint64_t most = static_cast<T>(~T{0});
  value = std::min(value, most);
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

std::string bits_where(const std::vector<uint8_t>& residency, uint8_t what) {
  std::string bits((residency.size() + 7) / 8, '\0');
  for (size_t i = 0; i < residency.size(); ++i)
    if (residency[i] == what) bits[i / 8] = static_cast<char>(bits[i / 8] | (1 << (i % 8)));
  return bits;
}

json::value ratio(double part, double whole) { return whole > 0 ? json::value(part / whole) : json::value(nullptr); }

}  // namespace

std::string base64(std::string_view bytes) {
  static constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kLetters[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::optional<json::object> ExpertFrames::next(ExpertSnapshot now) {
  if (last_ && now.activations == last_->activations && now.residency == last_->residency) return std::nullopt;
  json::object frame = changes(now);
  if (!last_) {
    std::string total;
    for (const uint64_t count : now.activations) append_little_endian<uint32_t>(total, count);
    frame["layer_numbers"] = json::value_from(shape_.layer_numbers);
    frame["top_k"] = shape_.top_k;
    if (shape_.bytes_per_expert > 0) frame["bytes_per_expert"] = shape_.bytes_per_expert;
    frame["total"] = base64(total);
  }
  last_ = std::move(now);
  return frame;
}

json::object ExpertFrames::changes(const ExpertSnapshot& now) const {
  std::string deltas;
  for (size_t i = 0; i < now.activations.size(); ++i)
    append_little_endian<uint16_t>(deltas, last_ ? now.activations[i] - last_->activations[i] : 0);
  const ExpertSnapshot& before = last_ ? *last_ : now;
  const auto hits = static_cast<double>(now.hits - before.hits),
             misses = static_cast<double>(now.misses - before.misses);
  const auto bytes = static_cast<double>(now.bytes_read - before.bytes_read);
  const auto tokens = static_cast<double>(now.tokens - before.tokens);
  const double seconds = now.seconds - before.seconds;
  return {{"layers", shape_.layers},
          {"experts", shape_.experts},
          {"activations", base64(deltas)},
          {"resident", base64(bits_where(now.residency, COLIBRI_IN_MEMORY))},
          {"reading", base64(bits_where(now.residency, COLIBRI_BEING_READ))},
          {"hit_rate", ratio(hits, hits + misses)},
          {"bytes_per_token", ratio(bytes, tokens)},
          {"tokens_per_second", tokens > 0 ? ratio(tokens, seconds) : json::value(nullptr)},
          {"read_bytes_per_second", ratio(bytes, seconds)}};
}

}  // namespace colibri::server

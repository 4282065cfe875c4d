#include "text/components.h"

#include <algorithm>
#include <cmath>

#include "text/ranked_merges.h"

namespace colibri::text {
namespace {

constexpr std::string_view kDecoder = R"({"type":"Sequence","decoders":[
    {"type":"Replace","pattern":{"String":"\u2581"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"}]})";

}  // namespace

Decoder sentencepiece_decoder(size_t strip) {
  Json json = parse_json(kDecoder).value();
  if (strip > 0) {
    Json stripping, parts = *json.find("decoders");
    stripping.set("type", "Strip").set("content", " ").set("start", static_cast<int64_t>(strip)).set("stop", 0);
    json.set("decoders", parts.push_back(std::move(stripping)));
  }
  return Decoder::parse(&json).value();
}

Result<std::vector<uint32_t>> ranks_of_scores(const std::vector<float>& scores, const std::vector<bool>& usable) {
  std::vector<float> sorted;
  for (size_t id = 0; id < scores.size(); ++id) {
    if (std::isnan(scores[id])) {
      return Error{ErrorCode::kInvalidModel, "the score of token " + std::to_string(id) + " is no number"};
    }
    if (usable[id]) sorted.push_back(scores[id]);
  }
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<uint32_t> ranks(scores.size(), kUnranked);
  for (size_t id = 0; id < scores.size(); ++id) {
    if (!usable[id]) continue;
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), scores[id], std::greater<>());
    ranks[id] = static_cast<uint32_t>(place - sorted.begin());
  }
  return ranks;
}

}  // namespace colibri::text

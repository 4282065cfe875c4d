#include "replay/trace_file.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/json.h"
#include "platform/file.h"

namespace colibri::replay {
namespace {

constexpr int64_t kLargestFile = int64_t{8} << 30;
constexpr int64_t kMostLayers = 4096, kMostExperts = 65536;

Error bad(const std::string& why) { return {ErrorCode::kInvalidModel, why}; }

Result<int64_t> number(const Json& object, const char* key, int64_t least, int64_t most) {
  const Json* value = object.find(key);
  if (value == nullptr || !value->is_int() || value->as_int() < least || value->as_int() > most)
    return bad(std::string("needs \"") + key + "\", a whole number from " + std::to_string(least) + " to " +
               std::to_string(most));
  return value->as_int();
}

/// The lines of a trace one by one.
class Reader {
 public:
  explicit Reader(int64_t step_positions) : step_positions_(step_positions) {}

  Status header(const Json& line) {
    const Json* format = line.find("format");
    if (format == nullptr || *format != Json("colibri-trace"))
      return bad("this is no trace: the first line does not say \"format\": \"colibri-trace\"");
    COLIBRI_ASSIGN(const int64_t version, number(line, "version", 1, INT64_MAX));
    if (version != 1) return bad("version " + std::to_string(version) + " of the format is not known, only 1");
    COLIBRI_ASSIGN(const int64_t experts, number(line, "experts", 1, kMostExperts));
    COLIBRI_ASSIGN(const int64_t top_k, number(line, "top_k", 1, experts));
    const Json* layers = line.find("layers");
    if (layers == nullptr || !layers->is_array() || static_cast<int64_t>(layers->as_array().size()) > kMostLayers)
      return bad("needs \"layers\", the decoder layers that have experts");
    for (const Json& layer : layers->as_array()) {
      if (!layer.is_int()) return bad("\"layers\" must be whole numbers");
      layer_index_.emplace(layer.as_int(), static_cast<int>(layer_index_.size()));
    }
    trace_.n_experts = static_cast<int>(experts);
    trace_.top_k = static_cast<int>(top_k);
    trace_.n_layers = static_cast<int>(layer_index_.size());
    return {};
  }

  Status choice(const Json& line) {
    COLIBRI_ASSIGN(const int64_t step, number(line, "step", 0, INT64_MAX));
    COLIBRI_ASSIGN(const int64_t layer, number(line, "layer", 0, INT64_MAX));
    COLIBRI_ASSIGN(const int64_t position, number(line, "position", 0, INT64_MAX));
    const auto known = layer_index_.find(layer);
    if (known == layer_index_.end()) return bad("layer " + std::to_string(layer) + " is not in the first line");
    if (step < step_) return bad("steps must not go back");
    if (step > step_ || !begun_) begin(step, position);
    const Json* experts = line.find("experts");
    if (experts == nullptr || !experts->is_array()) return bad("needs \"experts\", a list");
    for (const Json& expert : experts->as_array()) {
      if (!expert.is_int() || expert.as_int() < 0 || expert.as_int() >= trace_.n_experts)
        return bad("an expert is no whole number from 0 to " + std::to_string(trace_.n_experts - 1));
      COLIBRI_TRY(add(position, known->second, static_cast<int32_t>(expert.as_int())));
    }
    return {};
  }

  Trace finish() {
    end_step();
    return std::move(trace_);
  }

 private:
  void begin(int64_t step, int64_t position) {
    end_step();
    begun_ = true;
    step_ = step;
    first_position_ = position;
  }

  // Pieces of the present step, by position.
  Status add(int64_t position, int layer, int32_t expert) {
    const int64_t offset = position - first_position_;
    if (offset < 0 || offset > (1 << 24)) return bad("positions of a step must follow each other");
    const auto piece = static_cast<size_t>(step_positions_ > 0 ? offset / step_positions_ : 0);
    if (piece >= pieces_.size()) pieces_.resize(piece + 1);
    Step& part = pieces_[piece];
    part.layers.resize(static_cast<size_t>(trace_.n_layers));
    const int64_t tokens = offset + 1 - static_cast<int64_t>(piece) * step_positions_;
    part.tokens = std::max(part.tokens, tokens);
    std::vector<Want>& wants = part.layers[static_cast<size_t>(layer)];
    const auto same = std::find_if(wants.begin(), wants.end(), [&](const Want& w) { return w.expert == expert; });
    if (same == wants.end())
      wants.push_back({expert, 1});
    else
      ++same->rows;
    return {};
  }

  void end_step() {
    for (Step& piece : pieces_)
      if (piece.tokens > 0) trace_.steps.push_back(std::move(piece));
    pieces_.clear();
  }

  const int64_t step_positions_;
  Trace trace_;
  std::map<int64_t, int> layer_index_;
  std::vector<Step> pieces_;
  bool begun_ = false;
  int64_t step_ = 0;
  int64_t first_position_ = 0;
};

}  // namespace

Result<Trace> read_trace(const std::string& path, int64_t step_positions) {
  COLIBRI_ASSIGN(const std::string text, platform::read_text_file(path, kLargestFile));
  Reader reader(step_positions);
  int64_t n_lines = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string where = path + ": line " + std::to_string(++n_lines);
    COLIBRI_ASSIGN(const Json line, parse_json(std::string_view(text).substr(begin, end - begin)).with_context(where));
    COLIBRI_TRY((n_lines == 1 ? reader.header(line) : reader.choice(line)).with_context(where));
    begin = end + 1;
  }
  Trace trace = reader.finish();
  if (trace.steps.empty()) return Error{ErrorCode::kInvalidModel, path + ": the trace has no steps"};
  return trace;
}

Status append(Trace& trace, Trace next) {
  if (trace.n_layers != next.n_layers || trace.n_experts != next.n_experts || trace.top_k != next.top_k)
    return Error{ErrorCode::kUsage, "the traces are of models with " + std::to_string(trace.n_layers) + " x " +
                                        std::to_string(trace.n_experts) + " and " + std::to_string(next.n_layers) +
                                        " x " + std::to_string(next.n_experts) + " experts; replay them one by one"};
  std::move(next.steps.begin(), next.steps.end(), std::back_inserter(trace.steps));
  return {};
}

}  // namespace colibri::replay

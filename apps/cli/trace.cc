#include "trace.h"

#include <charconv>

#include "common/json.h"

namespace colibri::cli {
namespace {

// The shortest digits that read back as the same number.
template <typename Number>
void append_number(std::string& out, Number value) {
  char digits[32];
  out.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

template <typename Number>
void append_array(std::string& out, const Number* values, int32_t n) {
  out += '[';
  for (int32_t i = 0; i < n; ++i) {
    if (i > 0) out += ',';
    append_number(out, values[i]);
  }
  out += ']';
}

}  // namespace

Trace::Trace(OutputFile file, const api::Engine& engine, std::string model)
    : file_(std::move(file)), model_(std::move(model)) {
  const colibri_info info = engine.info();
  n_experts_ = info.n_experts;
  top_k_ = info.top_k;
}

api::RoutingCallback Trace::callback() {
  return [this](int32_t layer, int32_t first, int32_t n, const int32_t* ids, const float* weights, int32_t top_k) {
    return add(layer, first, n, ids, weights, top_k);
  };
}

bool Trace::add(int32_t layer, int32_t first, int32_t n, const int32_t* ids, const float* weights, int32_t top_k) {
  if (!status_) return false;
  if (layer <= last_layer_ && ++step_ == 1) status_ = write_first_step();
  last_layer_ = layer;
  if (step_ == 0) layers_.push_back(layer);
  for (int32_t i = 0; i < n; ++i) add_line(layer, first + i, ids + i * top_k, weights + i * top_k, top_k);
  if (step_ == 0 || !status_) return status_.ok();
  status_ = file_.write(lines_);
  lines_.clear();
  return status_.ok();
}

void Trace::add_line(int32_t layer, int32_t position, const int32_t* ids, const float* weights, int32_t top_k) {
  lines_ += "{\"step\":";
  append_number(lines_, step_);
  lines_ += ",\"layer\":";
  append_number(lines_, layer);
  lines_ += ",\"position\":";
  append_number(lines_, position);
  lines_ += ",\"experts\":";
  append_array(lines_, ids, top_k);
  lines_ += ",\"weights\":";
  append_array(lines_, weights, top_k);
  lines_ += "}\n";
}

Status Trace::write_first_step() {
  std::string header = "{\"format\":\"colibri-trace\",\"version\":1,\"model\":";
  append_json_string(header, model_);
  header += ",\"layers\":";
  append_array(header, layers_.data(), static_cast<int32_t>(layers_.size()));
  header += ",\"experts\":";
  append_number(header, n_experts_);
  header += ",\"top_k\":";
  append_number(header, top_k_);
  if (Status written = file_.write(header + "}\n"); !written) return written;
  Status written = file_.write(lines_);
  lines_.clear();
  return written;
}

Status Trace::finish() {
  if (step_ == 0) status_ = write_first_step();
  return status_.ok() ? file_.commit() : status_;
}

}  // namespace colibri::cli

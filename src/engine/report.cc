#include "engine/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "engine/config_facts.h"
#include "engine/model_shape.h"
#include "engine/text_model.h"
#include "model/families/family.h"
#include "model/weights.h"
#include "platform/file.h"
#include "store/quantised_source.h"
#include "tensor/convert.h"

namespace colibri::engine {
namespace {

using formats::TensorCatalog;
using formats::TensorInfo;

Json shape_json(const Shape& shape) {
  Json json{Json::Array{}};
  for (const int64_t d : shape) json.push_back(d);
  return json;
}

Json tensor_json(const TensorCatalog& catalog, const TensorInfo& tensor) {
  Json json;
  json.set("name", tensor.name);
  json.set("dtype", info(tensor.dtype).name);
  json.set("shape", shape_json(tensor.shape));
  json.set("file", catalog.files()[static_cast<size_t>(tensor.file)].path());
  json.set("offset", tensor.offset);
  json.set("bytes", tensor.bytes);
  return json;
}

Json files_json(const TensorCatalog& catalog) {
  Json files{Json::Array{}};
  for (const platform::File& file : catalog.files()) {
    Json entry;
    entry.set("path", file.path());
    entry.set("bytes", file.size_bytes());
    files.push_back(std::move(entry));
  }
  return files;
}

// Bytes and tensors per storage type: what people call the quantisation.
Json types_json(const TensorCatalog& catalog) {
  std::map<std::string, std::pair<int64_t, int64_t>> types;
  for (const TensorInfo& tensor : catalog.tensors()) {
    auto& [count, bytes] = types[std::string(info(tensor.dtype).name)];
    ++count;
    bytes += tensor.bytes;
  }
  Json json{Json::Object{}};
  for (const auto& [name, numbers] : types) {
    Json entry;
    entry.set("tensors", numbers.first);
    entry.set("bytes", numbers.second);
    json.set(name, std::move(entry));
  }
  return json;
}

Json tokenizer_json(const std::optional<TextModel>& text) {
  if (!text) return {};
  Json json;
  json.set("source", text->source());
  json.set("ids", text->tokenizer()->vocab_size());
  json.set("bos_id", text->tokenizer()->bos_id());
  json.set("eos_id", text->tokenizer()->eos_id());
  json.set("chat_template", text->has_template());
  if (!text->tokenizer()->note().empty()) json.set("note", text->tokenizer()->note());
  return json;
}

int64_t total_elements(const TensorCatalog& catalog) {
  int64_t n = 0;
  for (const TensorInfo& tensor : catalog.tensors()) n += tensor.shape.elements();
  return n;
}

// ---- validate ------------------------------------------------------------------------------------------------------

class Validator {
 public:
  explicit Validator(std::string path) : path_(std::move(path)) {}

  Result<Validation> run(bool tokenizer_only) {
    if (tokenizer_only) {
      check_text(TextModel::open(path_, ""), nullptr);
      return finish();
    }
    COLIBRI_ASSIGN(const TensorCatalog catalog, formats::open_catalog(path_));
    checked_.set("files", static_cast<int64_t>(catalog.files().size()));
    checked_.set("tensors", static_cast<int64_t>(catalog.tensors().size()));
    const auto description = model::describe_model(path_, catalog);
    if (!description.ok()) problem(description.error().message);
    if (description.ok()) check_structure(*description, catalog);
    check_values(catalog);
    check_model_text(catalog, description.ok() ? &description->spec : nullptr);
    return finish();
  }

 private:
  void problem(const std::string& what, const std::string& file = "", const std::string& tensor = "") {
    if (first_problem_.empty()) first_problem_ = what;
    Json entry;
    entry.set("what", what);
    entry.set("file", file);
    entry.set("tensor", tensor);
    problems_.push_back(std::move(entry));
  }

  void check_structure(const model::ModelDescription& description, const TensorCatalog& catalog) {
    const auto plan = model::WeightPlan::make(description, catalog);
    if (!plan.ok()) problem(plan.error().message);
    if (plan.ok()) check_quantised(*plan, catalog);
    const Status facts = check_config_facts(path_, description.spec, catalog);
    if (!facts.ok()) problem(facts.error().message);
    checked_.set("family", description.spec.family);
  }

  void check_quantised(const model::WeightPlan& plan, const TensorCatalog& catalog) {
    const auto check = [&](const store::MatrixSource& source) {
      const Status status = store::check_matrix(catalog, source);
      if (status.ok()) return;
      const std::string& file = catalog.files()[static_cast<size_t>(source.tensor->file)].path();
      problem(status.error().message, file, source.tensor->name);
    };
    for (const model::MatrixJob& job : plan.matrices()) check(job.source);
    for (const store::ExpertSource& expert : plan.experts())
      for (const store::MatrixSource* source : {&expert.gate, &expert.up, &expert.down}) check(*source);
  }

  void check_values(const TensorCatalog& catalog) {
    int64_t bytes = 0;
    for (const TensorInfo& tensor : catalog.tensors()) {
      const std::string& file = catalog.files()[static_cast<size_t>(tensor.file)].path();
      if (const Status status = check_tensor(catalog, tensor); !status.ok())
        problem(status.error().message, file, tensor.name);
      bytes += tensor.bytes;
    }
    checked_.set("bytes", bytes);
  }

  // Reads a tensor piece by piece; what can be turned into numbers must be finite.
  Status check_tensor(const TensorCatalog& catalog, const TensorInfo& tensor) {
    const DTypeInfo& type = info(tensor.dtype);
    const int64_t piece = std::max<int64_t>(1, kPiece / type.block_bytes) * type.block_bytes;
    for (int64_t first = 0; first < tensor.bytes; first += piece) {
      const int64_t n = std::min(piece, tensor.bytes - first);
      raw_.resize(static_cast<size_t>(n));
      COLIBRI_TRY(catalog.read(tensor, first, raw_));
      if (!type.readable) continue;
      values_.resize(static_cast<size_t>(n / type.block_bytes * type.block_elements));
      convert_to_f32(tensor.dtype, raw_.data(), static_cast<int64_t>(values_.size()), values_.data());
      const auto bad = std::find_if(values_.begin(), values_.end(), [](float v) { return !std::isfinite(v); });
      if (bad == values_.end()) continue;
      const int64_t index = first / type.block_bytes * type.block_elements + (bad - values_.begin());
      return Error{ErrorCode::kInvalidModel,
                   "tensor " + tensor.name + " holds a value that is not finite at index " + std::to_string(index)};
    }
    return {};
  }

  void check_model_text(const TensorCatalog& catalog, const model::ModelSpec* spec) {
    auto text = TextModel::of_model(path_, catalog);
    if (!text.ok()) return problem(text.error().message);
    if (text->has_value()) check_text(Result<TextModel>(**std::move(text)), spec);
  }

  void check_text(Result<TextModel> text, const model::ModelSpec* spec) {
    if (!text.ok()) return problem(text.error().message);
    checked_.set("tokenizer_ids", text->tokenizer()->vocab_size());
    checked_.set("chat_template", text->has_template());
    if (spec != nullptr && text->tokenizer()->vocab_size() > spec->vocab_size)
      problem("the tokenizer has " + std::to_string(text->tokenizer()->vocab_size()) + " ids, the model's vocabulary " +
                  std::to_string(spec->vocab_size),
              text->source());
    check_template(*text);
  }

  void check_template(const TextModel& text) {
    if (!text.has_template()) {
      if (text.template_problem() != TextModel::kNoTemplate) problem(text.template_problem(), text.source());
      return;
    }
    Json message;
    message.set("role", "user");
    message.set("content", "Hello");
    Json request;
    request.set("messages", Json::Array{message});
    request.set("add_generation_prompt", true);
    const auto rendered = text.apply_template(request, 0);
    if (!rendered.ok())
      problem("the chat template fails on a plain message: " + rendered.error().message, text.source());
  }

  Result<Validation> finish() {
    Validation v;
    v.ok = problems_.empty();
    v.first_problem = first_problem_;
    v.report.set("ok", v.ok);
    v.report.set("checked", std::move(checked_));
    v.report.set("problems", std::move(problems_));
    return v;
  }

  static constexpr int64_t kPiece = 4 << 20;
  std::string path_;
  Json checked_{Json::Object{}};
  Json::Array problems_;
  std::string first_problem_;
  std::vector<std::byte> raw_;
  std::vector<float> values_;
};

// Whether every tensor that the family needs is there, in a shape and type that this version reads.
Status readable_weights(const model::ModelDescription& description, const TensorCatalog& catalog) {
  const auto plan = model::WeightPlan::make(description, catalog);
  return plan.ok() ? Status() : Status(plan.error());
}

}  // namespace

Result<Json> inspect_model(const std::string& path, bool tensors) {
  COLIBRI_ASSIGN(const TensorCatalog catalog, formats::open_catalog(path));
  Json json;
  json.set("path", path);
  json.set("format", catalog.format() == formats::Format::kGguf ? "gguf" : "safetensors");
  const auto description = model::describe_model(path, catalog);
  const Status readable = description.ok() ? readable_weights(*description, catalog) : Status(description.error());
  json.set("family", description.ok() ? Json(description->spec.family) : Json{});
  json.set("supported", readable.ok());
  if (!readable.ok()) json.set("problem", readable.error().message);
  if (description.ok()) {
    json.set("shape", shape_of_model(description->spec));
    if (!description->quantisation.schemes.empty()) json.set("quantisation", description->quantisation.describe());
    if (Json unused = unused_tensors(catalog, description->spec); !unused.is_null())
      json.set("not_loaded", std::move(unused));
    Json notes{Json::Array{}};
    for (const std::string& note : description->spec.notes) notes.push_back(note);
    if (!description->spec.notes.empty()) json.set("notes", std::move(notes));
  }
  json.set("parameters", total_elements(catalog));
  json.set("types", types_json(catalog));
  auto text = TextModel::of_model(path, catalog);
  json.set("tokenizer", text.ok() ? tokenizer_json(*text) : Json{});
  if (!text.ok()) json.set("tokenizer_problem", text.error().message);
  json.set("files", files_json(catalog));
  if (tensors) {
    Json list{Json::Array{}};
    for (const TensorInfo& tensor : catalog.tensors()) list.push_back(tensor_json(catalog, tensor));
    json.set("tensors", std::move(list));
  }
  return json;
}

Result<Validation> validate_model(const std::string& path, bool tokenizer_only) {
  return Validator(path).run(tokenizer_only);
}

}  // namespace colibri::engine

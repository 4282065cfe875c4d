#include "engine/opened_model.h"

#include <algorithm>

#include "engine/config_facts.h"
#include "platform/memory.h"

namespace colibri::engine {
namespace {

Status check_vocabulary(const TextModel& text, const model::ModelSpec& spec) {
  const int32_t n = text.tokenizer()->vocab_size();
  if (n <= spec.vocab_size) return {};
  return Error{ErrorCode::kInvalidModel, text.source() + ": the tokenizer has " + std::to_string(n) +
                                             " ids, the model's vocabulary " + std::to_string(spec.vocab_size) +
                                             "; it belongs to another model"};
}

double number_or(const Json& config, const char* key, double fallback) {
  const Json* value = config.find_value(key);
  return value != nullptr && value->is_number() ? value->as_double() : fallback;
}

// The defaults that generation_config.json (or its like in GGUF) gives must be numbers in range.
Status check_sampling_defaults(const Json& config, const sampling::SamplingParams& params) {
  for (const char* key : {"temperature", "top_k", "top_p", "min_p", "repetition_penalty"}) {
    const Json* value = config.find_value(key);
    if (value != nullptr && !value->is_number())
      return Error{ErrorCode::kUsage,
                   std::string("\"") + key + "\" is " + value->dump().substr(0, 60) + ", not a number"};
  }
  const Json* top_k = config.find_value("top_k");
  if (top_k != nullptr && top_k->as_double() != static_cast<double>(params.top_k))
    return Error{ErrorCode::kUsage, "\"top_k\" is " + top_k->dump() + ", not a whole number"};
  return sampling::validate(params);
}

Status check_generation_config(const model::ModelDescription& description) {
  const Status status = check_sampling_defaults(description.generation_config, sampling_defaults(description));
  if (status.ok()) return {};
  return Error{ErrorCode::kInvalidModel, description.generation_source + ": " + status.error().message};
}

// The tokenizer may know an end of text that the config does not.
void add_end_of_text(const TextModel& text, std::vector<TokenId>& eos_ids) {
  const TokenId id = text.tokenizer()->eos_id();
  if (id >= 0 && std::find(eos_ids.begin(), eos_ids.end(), id) == eos_ids.end()) eos_ids.push_back(id);
}

}  // namespace

Result<std::unique_ptr<OpenedModel>> OpenedModel::open(const std::string& path, bool without_text) {
  auto model = std::make_unique<OpenedModel>();
  COLIBRI_ASSIGN(model->catalog, formats::open_catalog(path));
  COLIBRI_ASSIGN(model->description, model::describe_model(path, model->catalog));
  const model::ModelSpec& spec = model->description.spec;
  COLIBRI_TRY(check_config_facts(path, spec, model->catalog));
  COLIBRI_TRY(check_generation_config(model->description));
  if (!without_text) {
    COLIBRI_ASSIGN(model->text, TextModel::of_model(path, model->catalog));
  }
  if (model->text) {
    COLIBRI_TRY(check_vocabulary(*model->text, spec));
    add_end_of_text(*model->text, model->description.eos_ids);
  }
  COLIBRI_ASSIGN(model->weights, model::WeightPlan::make(model->description, model->catalog));
  model->catalog.drop_metadata();
  platform::trim_heap();  // what parsing left behind
  return model;
}

sampling::SamplingParams sampling_defaults(const model::ModelDescription& description) {
  const Json& config = description.generation_config;
  sampling::SamplingParams params;
  const Json* do_sample = config.find_value("do_sample");
  const bool greedy = do_sample != nullptr && do_sample->is_bool() && !do_sample->as_bool() &&
                      config.find_value("temperature") == nullptr;
  params.temperature = greedy ? 0.0 : number_or(config, "temperature", 1.0);
  params.top_k = static_cast<int32_t>(number_or(config, "top_k", 0));
  params.top_p = number_or(config, "top_p", 1.0);
  params.min_p = number_or(config, "min_p", 0.0);
  params.repetition_penalty = number_or(config, "repetition_penalty", 1.0);
  return params;
}

}  // namespace colibri::engine

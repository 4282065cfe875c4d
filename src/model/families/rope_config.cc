// RoPE settings: rope_theta and rope_scaling of older configs, rope_parameters of newer ones.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "model/families/config.h"

namespace colibri::model {
namespace {

bool is_nested(const Json& block) {
  if (!block.is_object()) return false;
  const auto& members = block.as_object();
  return std::any_of(members.begin(), members.end(), [](const auto& member) { return member.second.is_object(); });
}

// Both names may be there when they say the same: in transformers rope_scaling wins, elsewhere rope_parameters.
const Json* rope_block(ConfigReader& reader) {
  const Json* nested = reader.peek("rope_parameters");
  if (nested != nullptr && is_nested(*nested)) return nullptr;  // read by families that have more than one RoPE
  const Json* parameters = reader.find("rope_parameters");
  const Json* scaling = reader.find("rope_scaling");
  if (parameters == nullptr || scaling == nullptr) return parameters != nullptr ? parameters : scaling;
  if (scaling->is_object())
    for (const auto& [key, value] : scaling->as_object()) {
      const Json* other = parameters->find(key == "type" ? "rope_type" : key);
      if (other == nullptr || *other != value)
        reader.fail("rope_scaling", "and \"rope_parameters\" are both there and differ in \"" + key + "\"");
    }
  return parameters;
}

bool same_type(const std::string& a, const std::string& b) {
  const auto plain = [](const std::string& type) {
    return type == "su" ? std::string("longrope") : type == "mrope" ? std::string("default") : type;
  };
  return plain(a) == plain(b);
}

// rope_type, or type as it was called before. mrope with three equal positions, as text has, is plain RoPE.
std::string read_type(ConfigReader& block) {
  const Json* type = block.find("rope_type");
  const Json* old = block.find("type");
  if (type == nullptr && old == nullptr && block.find("factor") != nullptr)
    block.fail("rope_type", "is missing, so it is not known what \"factor\" scales");
  const std::string name = block.text_or("rope_type", block.text_or("type", "default"));
  if (type != nullptr && old != nullptr && !same_type(name, block.text_or("type", name)))
    block.fail("rope_type", "is " + type->dump() + ", but \"type\" is " + old->dump().substr(0, 100));
  return name == "su" ? "longrope" : name == "mrope" ? "default" : name;
}

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * exact_log(factor) + 1.0;
}

void read_yarn(ConfigReader& block, double original, RopeSpec& rope) {
  rope.scaling = RopeScaling::kYarn;
  rope.beta_fast = block.positive_or("beta_fast", 32);
  rope.beta_slow = block.positive_or("beta_slow", 1);
  rope.truncate = block.flag_or("truncate", true);
  rope.original_context = block.positive_or("original_max_position_embeddings", original);
  double magnitude = yarn_magnitude(rope.factor, 1.0);
  const double mscale = block.number_or("mscale", 0), all_dim = block.number_or("mscale_all_dim", 0);
  if (mscale != 0 && all_dim != 0)
    magnitude = yarn_magnitude(rope.factor, mscale) / yarn_magnitude(rope.factor, all_dim);
  rope.attention_factor = block.positive_or("attention_factor", magnitude);
}

std::vector<float> read_factors(ConfigReader& block, std::string_view key, int pairs) {
  std::vector<float> factors;
  const Json* value = block.find(key);
  if (value != nullptr && value->is_array())
    for (const Json& item : value->as_array())
      factors.push_back(item.is_number() ? static_cast<float>(item.as_double()) : 0.0f);
  const bool positive = std::all_of(factors.begin(), factors.end(), [](float f) { return f > 0 && f < 1e30f; });
  if (factors.size() != static_cast<size_t>(pairs) || !positive)
    block.fail(key, "must be a list of " + std::to_string(pairs) + " positive numbers, one for each rotary pair");
  return factors;
}

// Two sets of divisors; the usual factor on cos and sin grows with the context (LongRoPE, arXiv 2402.13753).
void read_long(ConfigReader& block, double max_positions, double original, RopeSpec& rope) {
  rope.scaling = RopeScaling::kLong;
  rope.frequency_divisors = read_factors(block, "short_factor", rope.rotary_dim / 2);
  rope.long_divisors = read_factors(block, "long_factor", rope.rotary_dim / 2);
  block.find("long_frequencies");  // phimoe's
  rope.original_context = block.positive_or("original_max_position_embeddings", original);
  const double stretch = block.positive_or("factor", max_positions / rope.original_context);
  const double usual = stretch <= 1 ? 1.0 : std::sqrt(1.0 + exact_log(stretch) / exact_log(rope.original_context));
  const double both = block.positive_or("attention_factor", usual);
  rope.attention_factor = block.positive_or("short_mscale", both);
  rope.long_attention_factor = block.positive_or("long_mscale", both);
}

void read_scaling(ConfigReader& reader, ConfigReader& block, RopeSpec& rope) {
  const std::string type = read_type(block);
  const double max_positions = reader.positive_or("max_position_embeddings", 1);
  const double original = reader.positive_or("original_max_position_embeddings", max_positions);
  block.find("finetuned");
  if (type == "linear" || type == "dynamic") block.find("original_max_position_embeddings");  // nothing depends on it
  if (type == "linear" || type == "llama3" || type == "yarn") rope.factor = block.positive("factor");
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    rope.low_freq_factor = block.positive("low_freq_factor");
    rope.high_freq_factor = block.positive("high_freq_factor");
    rope.original_context = block.positive_or("original_max_position_embeddings", original);
  } else if (type == "yarn") {
    read_yarn(block, original, rope);
  } else if (type == "longrope") {
    read_long(block, max_positions, original, rope);
  } else if (type == "dynamic" && block.find("alpha") != nullptr) {  // Hunyuan's NTK: a larger base
    const double d = rope.rotary_dim;
    rope.theta *= exact_pow(block.positive("alpha"), d / (d - 2.0));
    block.require_neutral("factor", 1);
    for (const char* key : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) block.find(key);  // YaRN's, unused
  } else if (type == "proportional") {  // the slowest pairs of the whole head do not turn (Gemma 4)
    rope.factor = block.positive_or("factor", 1.0);
    rope.scaling = rope.factor != 1.0 ? RopeScaling::kLinear : RopeScaling::kNone;
    const int turning = static_cast<int>(block.fraction_or("partial_rotary_factor", 1.0) * rope.rotary_dim / 2);
    rope.frequency_divisors.assign(static_cast<size_t>(rope.rotary_dim / 2), HUGE_VALF);
    std::fill_n(rope.frequency_divisors.begin(), std::clamp(turning, 0, rope.rotary_dim / 2), 1.0f);
  } else if (type != "default") {
    block.fail_unsupported("rope_type", "is \"" + type +
                                            "\"; this version has default, linear, llama3, yarn, longrope, "
                                            "proportional and dynamic with alpha");
  }
}

// Families that turn whole heads leave a partial_rotary_factor of the config unread, which must be 1 then.
double read_part(ConfigReader& reader, ConfigReader& block) {
  if (block.text_or("rope_type", "") == "proportional") return 1.0;
  if (reader.partial_rotary())
    return block.fraction_or("partial_rotary_factor", reader.fraction_or("partial_rotary_factor", 1.0));
  block.require_value("partial_rotary_factor", 1);
  return 1.0;
}

}  // namespace

RopeSpec read_rope(ConfigReader& reader, const Json* settings, int head_dim, int rotary_dim) {
  static const Json kEmpty{Json::Object{}};
  const char* name = settings == reader.find("rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (settings != nullptr && !settings->is_object())
    reader.fail(name, "is " + settings->dump().substr(0, 100) + ", expected an object");
  ConfigReader block = reader.block(settings != nullptr && settings->is_object() ? *settings : kEmpty, name);
  RopeSpec rope;
  rope.theta = block.positive_or("rope_theta", reader.positive_or("rope_theta", 10000.0));
  const double part = read_part(reader, block);
  rope.rotary_dim = part == 1.0 ? rotary_dim : static_cast<int>(head_dim * part);
  if (part == 1.0 && rotary_dim % 2 != 0)
    reader.fail("head_dim", "is " + std::to_string(rotary_dim) + ", expected an even number: RoPE turns pairs");
  else if (rope.rotary_dim < 2 || rope.rotary_dim > head_dim || rope.rotary_dim % 2 != 0)
    reader.fail("partial_rotary_factor", "gives " + std::to_string(rope.rotary_dim) + " rotary elements of a head of " +
                                             std::to_string(head_dim) + ", expected an even number");
  rope.rotary_dim = std::max(2, rope.rotary_dim / 2 * 2);
  block.find("mrope_section");  // three equal positions, as text has, make it plain RoPE
  block.find("mrope_interleaved");
  read_scaling(reader, block, rope);
  if (const Json* divisors = block.find("frequency_divisors")) {  // of a GGUF file
    rope.frequency_divisors.clear();
    for (const Json& d : divisors->as_array()) rope.frequency_divisors.push_back(static_cast<float>(d.as_double()));
  }
  const double magnitude = block.positive_or("magnitude", 1.0);  // likewise: on top of what the type gives
  rope.attention_factor *= magnitude;
  rope.long_attention_factor *= magnitude;
  reader.take(block.finish_block());
  return rope;
}

RopeSpec read_rope(ConfigReader& reader, int head_dim, int rotary_dim) {
  return read_rope(reader, rope_block(reader), head_dim, rotary_dim);
}

float yarn_score_factor(ConfigReader& reader) {
  const Json* block = rope_block(reader);
  if (block == nullptr || !block->is_object()) return 1.0f;
  const Json* factor = block->find_value("factor");
  const Json* all_dim = block->find_value("mscale_all_dim");
  if (factor == nullptr || all_dim == nullptr || !factor->is_number() || !all_dim->is_number()) return 1.0f;
  if (all_dim->as_double() == 0) return 1.0f;
  const double magnitude = yarn_magnitude(factor->as_double(), all_dim->as_double());
  return static_cast<float>(magnitude * magnitude);
}

}  // namespace colibri::model

#include "formats/quantisation.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "formats/layout.h"
#include "formats/strict_object.h"

namespace colibri::formats {
namespace {

using Settings = StrictObject;
using Names = std::initializer_list<std::string_view>;

bool is_one_of(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

using Schemes = std::vector<QuantScheme>;

// What says which modules are quantised (their tensors do), or how activations and caches would be.
void ignore_selection(Settings& s) {
  s.ignore(
      "quant_method modules_to_not_convert modules_to_convert ignore ignored_layers exclude_modules "
      "activation_scheme kv_cache_scheme dequantize");
}

std::optional<std::pair<int64_t, int64_t>> block_shape(Settings& s, std::string_view key) {
  const Json* value = s.find(key);
  if (value == nullptr) return std::nullopt;
  const auto side = [&](size_t i) {
    const Json& item = value->as_array()[i];
    return item.is_int() && item.as_int() >= 1 && item.as_int() <= (1 << 24) ? item.as_int() : 0;
  };
  if (value->is_array() && value->as_array().size() == 2 && side(0) > 0 && side(1) > 0) return {{side(0), side(1)}};
  s.wrong(key, "[outputs, inputs] of a tile");
  return std::nullopt;
}

QuantScheme fp4(int64_t group) {
  QuantScheme scheme;
  scheme.storage = Storage::kFp4;
  scheme.bits = 4;
  scheme.group_inputs = group;
  return scheme;
}

Schemes read_fp8(Settings& s) {
  const std::string kind = s.text("fmt", "e4m3");
  if (!is_one_of(kind, {"e4m3", "float8_e4m3fn"})) s.unsupported("fmt", "has no decoder here");
  s.ignore("scale_fmt activation_scale_ub");  // the scales' type says the first
  QuantScheme scheme;
  if (const auto tile = block_shape(s, "weight_block_size")) {
    scheme.group_outputs = tile->first;
    scheme.group_inputs = tile->second;
  }
  Schemes schemes = {scheme};
  const std::string experts = s.text("expert_dtype", "fp8");
  if (experts == "fp4")
    schemes.push_back(fp4(32));
  else if (experts != "fp8")
    s.unsupported("expert_dtype", "has no decoder here");
  return schemes;
}

Schemes read_mxfp4(Settings&) { return {fp4(32)}; }

Schemes read_awq(Settings& s) {
  for (const char* key : {"version", "format"})
    if (const std::string layout = s.text(key, "gemm"); layout != "gemm" && layout != "GEMM")
      s.unsupported(key, "lies in another order than gemm");
  if (s.text("backend", "auto") == "llm-awq") s.unsupported("backend", "lies in another order than gemm");
  if (!s.flag("zero_point", true)) s.unsupported("zero_point", "has no decoder here");
  s.ignore("do_fuse modules_to_fuse fuse_max_seq_len exllama_config desc_act sym lm_head meta");
  QuantScheme scheme;
  scheme.storage = Storage::kAwq;
  scheme.symmetric = false;
  scheme.bits = static_cast<int>(s.number("bits", 4));
  if (scheme.bits != 4) s.unsupported("bits", "has no decoder here (4 has)");
  scheme.group_inputs = s.group_size("group_size", 128);
  return {scheme};
}

// Modules may be left out by name; that they have other bits or groups cannot be told from a pattern safely.
void check_exceptions(Settings& s, std::string_view key) {
  const Json* exceptions = s.find(key);
  if (exceptions == nullptr) return;
  if (!exceptions->is_object()) return s.wrong(key, "an object");
  for (const auto& [pattern, value] : exceptions->as_object())
    if (!pattern.starts_with("-:")) s.unsupported(key, "gives modules settings of their own");
}

QuantScheme gptq_scheme(Settings& s, bool zero_plus_one) {
  QuantScheme scheme;
  scheme.storage = Storage::kGptq;
  scheme.symmetric = false;  // zero points are always there
  scheme.zero_plus_one = zero_plus_one;
  const int64_t bits = s.number("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) s.unsupported("bits", "has no decoder here (2, 4 and 8 have)");
  scheme.bits = static_cast<int>(bits);
  scheme.group_inputs = s.group_size("group_size", 128);
  scheme.act_order = s.flag("desc_act", false);
  return scheme;
}

Schemes read_gptq(Settings& s) {
  std::string layout = s.text("format", "gptq");
  layout = s.text("checkpoint_format", layout);
  if (layout != "gptq" && layout != "gptq_v2") s.unsupported("checkpoint_format", "lies in another order");
  if (s.text("pack_dtype", "int32") != "int32") s.unsupported("pack_dtype", "has no decoder here (int32 has)");
  s.must_be_off({"is_marlin_format"});
  check_exceptions(s, "dynamic");
  s.ignore(
      "sym lm_head meta quantizer backend tokenizer dataset damp_percent damp_auto_increment mse "
      "static_groups true_sequential act_group_aware model_seqlen block_name_to_quantize "
      "module_name_preceding_first_block modules_in_block_to_quantize inside_layer_modules "
      "outside_layer_modules batch_size pad_token_id max_input_length cache_block_outputs "
      "use_cuda_fp16 use_exllama disable_exllama exllama_config model_name_or_path "
      "model_file_base_name uri version adapter");
  return {gptq_scheme(s, layout == "gptq")};
}

Schemes read_auto_round(Settings& s) {
  const std::string packing = s.text("packing_format", "auto_round:auto_gptq");
  s.must_be_off({"extra_config", "rotation_config", "hadamard_config"});
  if (s.text("data_type", "int") != "int") s.unsupported("data_type", "has no decoder here");
  s.ignore(
      "sym backend autoround_version iters nsamples seqlen batch_size lr minmax_lr "
      "enable_minmax_tuning enable_quanted_input low_gpu_mem_usage block_name_to_quantize "
      "quant_block_list to_quant_block_names gradient_accumulate_steps scale_dtype amp dataset "
      "act_bits enable_norm_bias_tuning enable_alg_ext group_size bits desc_act");
  if (is_one_of(packing, {"auto_round:auto_awq", "auto_round:awq"})) return read_awq(s);
  if (!is_one_of(packing, {"auto_round:auto_gptq", "auto_round:gptq"}))
    s.unsupported("packing_format", "has no decoder here");
  return {gptq_scheme(s, true)};
}

Schemes read_fbgemm(Settings& s) {
  s.ignore("activation_scale_ub");
  return {QuantScheme{}};
}

// The numbers of a group of modules: bits, type, strategy.
QuantScheme read_weights(Settings& w) {
  QuantScheme scheme;
  scheme.bits = static_cast<int>(std::clamp<int64_t>(w.number("num_bits", 8), 0, 64));
  scheme.symmetric = w.flag("symmetric", true);
  const std::string strategy = w.text("strategy", "tensor"), order = w.text("actorder", "none");
  if (is_one_of(strategy, {"group", "tensor_group"})) {
    scheme.group_inputs = w.group_size("group_size", 128);
  } else if (strategy == "block") {
    const auto tile = block_shape(w, "block_structure").value_or(std::pair<int64_t, int64_t>(128, 128));
    scheme.group_outputs = tile.first;
    scheme.group_inputs = tile.second;
  } else if (!is_one_of(strategy, {"tensor", "channel"})) {
    w.unsupported("strategy", "has no decoder here");
  }
  if (!is_one_of(order, {"none", "weight", "static", "group", "dynamic"})) w.unsupported("actorder", "is not known");
  scheme.act_order = order == "group" || order == "dynamic";  // the others leave the order of the inputs
  w.must_be_off({"dynamic"});
  w.ignore("group_size block_structure type observer observer_kwargs scale_dtype zp_dtype is_mse");
  return scheme;
}

// The way that codes of this format lie in files.
QuantScheme stored_as(const std::string& format, const std::string& type, QuantScheme scheme, Settings& where) {
  const bool whole = type == "int", eight = scheme.bits == 8;
  const bool plain = is_one_of(format, {"int-quantized", "float-quantized", "naive-quantized"});
  if (format == "pack-quantized" && whole && (eight || scheme.bits == 4 || scheme.bits == 2)) {
    scheme.storage = Storage::kPackedInts;
  } else if (plain && whole && scheme.bits >= 2 && scheme.bits <= 8) {
    scheme.storage = Storage::kInt8;
  } else if ((plain || format == "mxfp8-quantized") && type == "float" && eight) {
    scheme.storage = Storage::kFp8;
  } else if (is_one_of(format, {"nvfp4-pack-quantized", "mxfp4-pack-quantized"}) && type == "float" &&
             scheme.bits == 4 && scheme.symmetric) {
    scheme.storage = Storage::kFp4;
    scheme.global_scale = scheme.divide_by_global = format.starts_with("nvfp4");
  } else {
    where.unsupported("format",
                      "has no decoder here for " + std::to_string(scheme.bits) + " bits of type " + quoted(type));
  }
  return scheme;
}

// Which modules have the scheme is seen at their tensors, so a target only has to be one: a class of modules, the name
// of one, or a pattern.
void check_targets(Settings& group) {
  const Json* targets = group.find("targets");
  if (targets == nullptr) return;
  const auto is_target = [](const Json& target) {
    if (!target.is_string()) return false;
    const std::string& name = target.as_string();
    return name.starts_with("re:") || name.find('.') != std::string::npos ||
           is_one_of(name, {"Linear", "Embedding", "Conv1d", "Conv2d", "lm_head", "FusedMoE", "MoE"});
  };
  if (!targets->is_array() || targets->as_array().empty() ||
      !std::all_of(targets->as_array().begin(), targets->as_array().end(), is_target))
    group.wrong("targets", "a list of \"Linear\", names of modules or \"re:\" patterns");
}

// {"group_0": {"targets": [...], "weights": {...}}}: a scheme each.
Result<Schemes> read_groups(Settings& s, const std::string& format) {
  Schemes schemes;
  const Json* groups = s.find("config_groups");
  if (groups == nullptr) return schemes;
  if (!groups->is_object()) {
    s.wrong("config_groups", "an object");
    return schemes;
  }
  for (const auto& [name, value] : groups->as_object()) {
    Settings group(value, s.where() + ": " + quoted(name));
    const std::string group_format = group.text("format", format);
    const Json* weights = group.find("weights");
    check_targets(group);
    group.ignore("input_activations output_activations");
    if (weights != nullptr) {
      Settings w(*weights, group.where() + ": \"weights\"");
      const std::string type = w.text("type", "int");
      Settings& where = group.find("format") != nullptr ? group : s;
      schemes.push_back(stored_as(group_format, type, read_weights(w), where));
      COLIBRI_TRY(w.finish());
    }
    COLIBRI_TRY(group.finish());
  }
  return schemes;
}

Result<Schemes> read_compressed_tensors(Settings& s) {
  const std::string format = s.text("format", "dense");
  const std::string status = s.text("quantization_status", "compressed");
  if (status != "compressed" && format != "dense") s.unsupported("quantization_status", "has no decoder here");
  if (const Json* sparsity = s.find("sparsity_config"); sparsity != nullptr) {
    const Json* kind = sparsity->find_value("format");
    const bool none = sparsity->is_object() && (sparsity->as_object().empty() || (kind != nullptr && *kind == "dense"));
    if (!none) s.unsupported("sparsity_config", "has no decoder here");
  }
  s.must_be_off({"transform_config", "moe_sparsity_config"});
  s.ignore("global_compression_ratio version run_compressed use_optimized_inference");
  COLIBRI_ASSIGN(Schemes schemes, read_groups(s, format));
  if (format == "dense") schemes.clear();
  return schemes;
}

Schemes read_modelopt(Settings& s) {
  const std::string algorithm = s.text("quant_algo", "");
  s.ignore("config_groups producer kv_cache_quant_algo group_size quantized_layers");
  QuantScheme scheme;
  if (algorithm == "NVFP4") {
    scheme = fp4(s.group_size("group_size", 16));
    scheme.global_scale = true;
  } else if (algorithm != "FP8") {
    s.unsupported("quant_algo", "has no decoder here (NVFP4 and FP8 have)");
  }
  return {scheme};
}

struct Method {
  std::string_view name;
  Result<Schemes> (*read)(Settings&);
};

template <Schemes (*read)(Settings&)>
Result<Schemes> simply(Settings& s) {
  return read(s);
}

constexpr Method kMethods[] = {
    {"fp8", simply<read_fp8>},           {"fbgemm_fp8", simply<read_fbgemm>},
    {"mxfp4", simply<read_mxfp4>},       {"compressed-tensors", read_compressed_tensors},
    {"gptq", simply<read_gptq>},         {"awq", simply<read_awq>},
    {"modelopt", simply<read_modelopt>}, {"auto-round", simply<read_auto_round>},
};

}  // namespace

std::string Quantisation::describe() const {
  std::string text;
  for (const QuantScheme& scheme : schemes) {
    text += (text.empty() ? method : " and") + (text.empty() ? ", " : " ") + std::to_string(scheme.bits) + " bits";
    if (scheme.group_outputs > 1)
      text += ", tiles of " + std::to_string(scheme.group_outputs) + " x " + std::to_string(scheme.group_inputs);
    else if (scheme.group_inputs > 0)
      text += ", groups of " + std::to_string(scheme.group_inputs);
    if (scheme.act_order) text += ", act order";
  }
  return text;
}

Result<Quantisation> read_quantisation(const Json& config, const std::string& source) {
  if (config.find_value("quantization") != nullptr && config.find_value("quantization_config") == nullptr)
    return Error{ErrorCode::kUnsupported, source +
                                              ": \"quantization\" means weights in MLX's layout, which has no "
                                              "decoder here" +
                                              kInstead};
  const Json* value = config.find_value("quantization_config");
  Quantisation quantisation;
  if (value == nullptr) return quantisation;
  Settings settings(*value, source + ": \"quantization_config\"");
  quantisation.method = settings.text("quant_method", "");
  ignore_selection(settings);
  const auto* method = std::find_if(std::begin(kMethods), std::end(kMethods),
                                    [&](const Method& m) { return m.name == quantisation.method; });
  if (method == std::end(kMethods)) {
    settings.unsupported("quant_method", "has no decoder here");
    COLIBRI_TRY(settings.finish());
  }
  COLIBRI_ASSIGN(quantisation.schemes, method->read(settings));
  COLIBRI_TRY(settings.finish());
  return quantisation;
}

}  // namespace colibri::formats

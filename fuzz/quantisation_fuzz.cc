// The "quantization_config" of a model's config.json.
#include "formats/quantisation.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto json = colibri::parse_json(colibri::fuzz::text_of(data, size));
  if (!json.ok()) return 0;
  colibri::Json config;
  config.set("quantization_config", *std::move(json));
  const auto quantisation = colibri::formats::read_quantisation(config, "config.json");
  if (!quantisation.ok()) {
    COLIBRI_CHECK(quantisation.error().message.find('\n') == std::string::npos);
    return 0;
  }
  for (const colibri::formats::QuantScheme& scheme : quantisation->schemes) {
    COLIBRI_CHECK(scheme.bits >= 2 && scheme.bits <= 8);
    COLIBRI_CHECK(scheme.group_inputs >= 0 && scheme.group_outputs >= 1);
  }
  COLIBRI_CHECK(quantisation->schemes.empty() == quantisation->describe().empty());
  return 0;
}

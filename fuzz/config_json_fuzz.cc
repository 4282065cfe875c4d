// A model's config.json, or GGUF metadata written as JSON ({"general.architecture": ...}), as the families read it.
#include "formats/catalog.h"
#include "fuzz.h"
#include "model/families/family.h"

namespace {

colibri::Result<colibri::Json> as_config(colibri::Json json) {
  if (json.find("general.architecture") == nullptr) return json;
  colibri::formats::TensorInfo embedding;
  embedding.name = "token_embd.weight";
  embedding.shape = {384, 64};
  COLIBRI_ASSIGN(const auto catalog, colibri::formats::TensorCatalog::build(colibri::formats::Format::kGguf, {},
                                                                            {embedding}, std::move(json)));
  return colibri::model::config_from_gguf(catalog, "model.gguf");
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto json = colibri::parse_json(colibri::fuzz::text_of(data, size));
  if (!json.ok()) return 0;
  const auto config = as_config(*std::move(json));
  if (!config.ok()) return 0;
  const auto description = colibri::model::describe_config(*config, "config.json");
  if (!description.ok()) COLIBRI_CHECK(description.error().message.find('\n') == std::string::npos);
  return 0;
}

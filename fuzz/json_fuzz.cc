// JSON: whatever parses can be written and read again with the same meaning; whatever does not has a position.
#include "base/json.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = colibri::parse_json(colibri::fuzz::text_of(data, size));
  if (!json.ok()) {
    COLIBRI_CHECK(json.error().message.starts_with("JSON line "));
    COLIBRI_CHECK(json.error().message.find('\n') == std::string::npos);
    return 0;
  }
  const std::string text = json->dump();
  for (const int indent : {-1, 2}) {
    const auto again =
        colibri::parse_json(json->dump(indent), {.max_depth = 65});  // a wrapped infinity is a level more
    COLIBRI_CHECK(again.ok());
    COLIBRI_CHECK(again->dump() == text);  // texts, because NaN is not equal to itself
  }
  return 0;
}

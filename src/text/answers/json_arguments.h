// JsonArguments: arguments that are a JSON object already; given as they stand, byte by byte.
//
// Line feeds and tabs inside strings, which models write although JSON forbids them, are escaped. Thread-safety: none.
#pragma once

#include "text/answers/arguments.h"
#include "text/answers/json_scanner.h"

namespace colibri::text {

class JsonArguments final : public ArgumentReader {
 public:
  Progress read(std::string_view text, std::string& json) override;
  void finish(std::string_view text, std::string& json) override;

 private:
  JsonScanner scanner_;
  bool begun_ = false;
};

}  // namespace colibri::text

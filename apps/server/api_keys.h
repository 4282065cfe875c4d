// Who may ask: the keys of a file, compared in constant time.
//
// Thread-safe: every request looks a key up while SIGHUP may put another file's keys in place. A file that cannot be
// read or is bad leaves the present keys as they are.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/failure.h"
#include "http.h"

namespace colibri::server {

struct ApiKey {
  std::string name;  ///< "NAME" of NAME:KEY, else "key-" and the number of its line
  std::string key;
};

/// One key per line, or NAME:KEY; empty lines and lines that start with # do not count. `source` names it in messages.
common::Outcome<std::vector<ApiKey>> parse_api_keys(std::string_view text, const std::string& source);

/// What the request brought: of "Authorization: Bearer KEY", else of x-api-key or api-key; empty when nothing.
std::string_view key_of(const HttpRequest& head);

class ApiKeys {
 public:
  /// Replaces all keys with those of the file; says how many. A file without keys is an error.
  common::Outcome<size_t> load(const std::string& path);
  bool empty() const;
  /// The name of the key; nothing when it is none of them. Takes the same time whichever it is.
  std::optional<std::string> name_of(std::string_view key) const;

 private:
  using Keys = std::vector<ApiKey>;
  std::shared_ptr<const Keys> now() const;
  mutable std::mutex mutex_;
  std::shared_ptr<const Keys> keys_ = std::make_shared<Keys>();
};

}  // namespace colibri::server

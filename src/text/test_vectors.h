// For tests: tokenizers and what Hugging Face `tokenizers` makes of texts with them.
//
// Two sources: tests/data/tokenizers, which is always there, and the shared oracle data, which may be absent.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace colibri::text {

struct TokenizerVector {
  std::optional<std::string> text;  ///< absent: decoding only
  TokenIds ids, ids_special;
  std::optional<TokenIds> ids_plain;
  std::string decoded, decoded_skip;
};

struct TokenizerCase {
  std::string name;
  std::string json;
  Json config;
  std::vector<TokenizerVector> vectors;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Json read_json(const std::filesystem::path& path) {
  auto json = parse_json(read_text(path));
  return json.ok() ? std::move(json).value() : Json();
}

inline std::filesystem::path shared_folder() {
  const char* folder = std::getenv("COLIBRI_SHARED");
  return folder ? std::filesystem::path(folder) : std::filesystem::path(COLIBRI_SOURCE_DIR) / ".." / "shared";
}

/// The output of xz -dc; empty when that fails.
inline std::string read_xz(const std::filesystem::path& path) {
  const std::string command = "xz -dc '" + path.string() + "'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string out;
  std::vector<char> buffer(1 << 20);
  while (pipe) {
    const size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe.get());
    if (n == 0) break;
    out.append(buffer.data(), n);
  }
  return out;
}

inline TokenIds ids_of(const Json& list) {
  TokenIds ids;
  for (const Json& id : list.as_array()) ids.push_back(static_cast<TokenId>(id.as_int()));
  return ids;
}

/// A member that is left out equals another one.
inline TokenizerVector read_vector(const Json& line) {
  TokenizerVector vector;
  if (const Json* text = line.find("text")) vector.text = text->as_string();
  vector.ids = ids_of(*line.find("ids"));
  const Json* special = line.find("ids_special");
  vector.ids_special = special ? ids_of(*special) : vector.ids;
  const Json* plain = line.find("ids_plain");
  if (plain) vector.ids_plain = ids_of(*plain);
  const Json* decoded = line.find("decoded");
  vector.decoded = decoded ? decoded->as_string() : vector.text.value();
  const Json* skip = line.find("decoded_skip");
  vector.decoded_skip = skip ? skip->as_string() : vector.decoded;
  return vector;
}

inline std::vector<TokenizerVector> read_vectors(const std::filesystem::path& path) {
  std::vector<TokenizerVector> vectors;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) vectors.push_back(read_vector(parse_json(line).value()));
  return vectors;
}

inline std::vector<TokenizerCase> own_cases() {
  std::vector<TokenizerCase> cases;
  const std::filesystem::path root = std::filesystem::path(COLIBRI_SOURCE_DIR) / "tests" / "data" / "tokenizers";
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const auto& folder = entry.path();
    cases.push_back({folder.filename().string(), read_text(folder / "tokenizer.json"), Json(),
                     read_vectors(folder / "vectors.jsonl")});
  }
  return cases;
}

/// Empty without the shared data. Read once.
inline const std::vector<TokenizerCase>& shared_cases() {
  static std::vector<TokenizerCase> cases;
  if (!cases.empty()) return cases;
  for (const char* name : {"deepseek_v3", "gemma3", "gptoss", "llama3_1", "qwen3"}) {
    const auto folder = shared_folder() / "tokenizers" / name;
    if (!std::filesystem::exists(folder / "tokenizer.json.xz")) continue;
    const auto vectors = shared_folder() / "oracle" / "tokenizer_vectors" / (std::string(name) + ".jsonl");
    cases.push_back({name, read_xz(folder / "tokenizer.json.xz"), read_json(folder / "tokenizer_config.json"),
                     read_vectors(vectors)});
  }
  return cases;
}

}  // namespace colibri::text

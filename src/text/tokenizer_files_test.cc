// The formats beside tokenizer.json: SentencePiece models, tiktoken and tekken files, and their forms in GGUF.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "text/bpe.h"
#include "text/detokenizer.h"
#include "text/ranked_merges.h"
#include "text/sentencepiece_model.h"
#include "text/test_vectors.h"

namespace colibri::text {
namespace {

const std::filesystem::path kFiles = std::filesystem::path(COLIBRI_SOURCE_DIR) / "tests" / "data" / "tokenizer_files";

using Read = Result<Tokenizer> (*)(std::string_view, const Json&, const std::string&);

struct FileCase {
  const char* name;
  const char* file;
  Read read;
  bool parse_special = true;
};

// Control tokens in a text are no special tokens for the libraries of SentencePiece and tekken.
constexpr FileCase kCases[] = {{"bpe", "tokenizer.model", Tokenizer::from_sentencepiece, false},
                               {"bpe_normalized", "tokenizer.model", Tokenizer::from_sentencepiece, false},
                               {"unigram", "tokenizer.model", Tokenizer::from_sentencepiece, false},
                               {"unigram_bytes", "tokenizer.model", Tokenizer::from_sentencepiece, false},
                               {"unigram_json", "tokenizer.json", Tokenizer::from_json},
                               {"tiktoken", "tiktoken.model", Tokenizer::from_tiktoken},
                               {"tekken", "tekken.json", Tokenizer::from_tekken, false}};

Result<Tokenizer> read(const FileCase& one, std::string_view bytes, const Json& config) {
  return one.read(bytes, config, std::string("dir/") + one.file);
}

Tokenizer load(const FileCase& one) {
  const auto folder = kFiles / one.name;
  auto tokenizer = read(one, read_text(folder / one.file), read_json(folder / "tokenizer_config.json"));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

/// Texts and ids; "decoded" null: not compared.
std::vector<Json> lines_of(const std::string& name) {
  std::vector<Json> lines;
  std::ifstream file(kFiles / name / "vectors.jsonl", std::ios::binary);
  for (std::string line; std::getline(file, line);) lines.push_back(parse_json(line).value());
  return lines;
}

std::string streamed(const Tokenizer& tokenizer, const TokenIds& ids) {
  Detokenizer stream(tokenizer, false);
  std::string out;
  for (const TokenId id : ids) stream.push(id, out);
  stream.finish(out);
  return out;
}

TEST(TokenizerFiles, EveryFormatGivesWhatItsOwnLibraryGives) {
  for (const FileCase& one : kCases) {
    const Tokenizer tokenizer = load(one);
    const auto lines = lines_of(one.name);
    ASSERT_GT(lines.size(), 60u) << one.name;
    for (const Json& line : lines) {
      const std::string& text = line.find("text")->as_string();
      const TokenIds ids = ids_of(*line.find("ids"));
      EXPECT_EQ(tokenizer.encode(text, {false, one.parse_special}), ids)
          << one.name << ": " << line.find("text")->dump();
      if (const Json* special = line.find("ids_special")) {
        EXPECT_EQ(tokenizer.encode(text, {true, true}), ids_of(*special)) << one.name;
      }
      const Json* decoded = line.find("decoded");
      if (decoded && decoded->is_null()) continue;
      const std::string& expected = decoded ? decoded->as_string() : text;
      EXPECT_EQ(tokenizer.decode(ids), expected) << one.name;
      EXPECT_EQ(streamed(tokenizer, ids), expected) << one.name;
    }
    std::printf("%-14s %zu vectors\n", one.name, lines.size());
  }
}

TEST(TokenizerFiles, SpecialTokensComeFromTheFilesAndTheirFamilies) {
  const Tokenizer kimi = load(kCases[5]);
  EXPECT_EQ(kimi.spelling(kimi.bos_id()), "[BOS]");
  EXPECT_EQ(kimi.vocab_size(), 556 + 256);
  EXPECT_EQ(kimi.find("<|reserved_token_811|>"), 811);
  EXPECT_EQ(kimi.encode("[EOS]", {true, true}), TokenIds({557}));
  const Tokenizer tekken = load(kCases[6]);
  EXPECT_EQ(tekken.encode("[INST]", {true, true}), TokenIds({1, 3}));
  EXPECT_TRUE(tekken.is_special(3));
  const Tokenizer spm = load(kCases[0]);
  const TokenIds ids = spm.encode("[INST] a", {true, true});
  EXPECT_EQ(ids[0], spm.bos_id());
  EXPECT_EQ(ids[1], spm.find("[INST]"));
}

TEST(TokenizerFiles, WithoutLegacyOnlyTheBeginningGetsABlank) {
  const std::string bytes = read_text(kFiles / "bpe" / "tokenizer.model");
  const auto tokens = [&](const char* config) {
    const auto tokenizer = Tokenizer::from_sentencepiece(bytes, parse_json(config).value(), "f");
    std::string out;
    for (const TokenId id : tokenizer->encode("a[INST]a")) out.append(tokenizer->spelling(id)).push_back('|');
    return out;
  };
  EXPECT_EQ(tokens("{}"), "▁a|[INST]|▁a|");
  EXPECT_EQ(tokens(R"({"legacy":false})"), "▁a|[INST]|a|");
}

/// What a converter writes for a SentencePiece model.
GgufVocabulary as_gguf(const SentencePieceModel& model) {
  GgufVocabulary out;
  out.model = model.algorithm == SentencePieceModel::kBpe ? "llama" : "t5";
  for (const auto& piece : model.pieces) {
    out.tokens.push_back(piece.text);
    out.scores.push_back(piece.score);
    out.token_types.push_back(piece.type);
  }
  out.precompiled_charsmap = model.precompiled_charsmap;
  out.add_space_prefix = model.add_dummy_prefix;
  out.remove_extra_whitespaces = model.remove_extra_whitespaces;
  out.unknown_id = model.unknown_id;
  return out;
}

TEST(TokenizerFiles, AGgufFormOfASentencePieceModelGivesTheSameIds) {
  for (const char* name : {"bpe", "unigram", "unigram_bytes"}) {
    const auto model = SentencePieceModel::parse(read_text(kFiles / name / "tokenizer.model"));
    ASSERT_TRUE(model.ok()) << model.error().message;
    const auto tokenizer = Tokenizer::from_gguf(as_gguf(*model), "f.gguf");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    size_t n = 0;
    for (const Json& line : lines_of(name)) {
      // User-defined symbols cut the text there, as they do in llama.cpp and transformers.
      const std::string& text = line.find("text")->as_string();
      const bool cut = std::any_of(model->pieces.begin(), model->pieces.end(), [&](const auto& piece) {
        return piece.type == SentencePieceModel::kUserDefined && text.find(piece.text) != std::string::npos;
      });
      if (cut || text.find("  ") != std::string::npos || text.starts_with(" ")) continue;
      EXPECT_EQ(tokenizer->encode(text, {false, false}), ids_of(*line.find("ids"))) << name << ": " << text;
      ++n;
    }
    EXPECT_GT(n, 40u) << name;
  }
}

/// The keys of a GGUF file for a tokenizer.json with character BPE; scores instead of merges for "llama".
GgufVocabulary as_gguf(const TokenizerCase& one, const std::string& model) {
  const Json root = parse_json(one.json).value();
  const Json& vocab = *root.find("model")->find("vocab");
  GgufVocabulary out;
  out.model = model;
  for (const auto& [text, id] : vocab.as_object()) {
    const auto i = static_cast<size_t>(id.as_int());
    if (i >= out.tokens.size()) out.tokens.resize(i + 1);
    out.tokens[i] = text;
  }
  for (const Json& token : root.find("added_tokens")->as_array()) {
    const auto i = static_cast<size_t>(token.find("id")->as_int());
    if (i >= out.tokens.size()) out.tokens.resize(i + 1);
    out.tokens[i] = token.find("content")->as_string();
  }
  for (const std::string& token : out.tokens) out.token_types.push_back(token.starts_with("<0x") ? 6 : 1);
  for (const Json& token : root.find("added_tokens")->as_array()) {
    out.token_types[static_cast<size_t>(token.find("id")->as_int())] = token.find("special")->as_bool() ? 3 : 4;
  }
  out.unknown_id = vocab.find("<unk>")->as_int();
  out.token_types[static_cast<size_t>(out.unknown_id)] = 2;
  out.scores.assign(out.tokens.size(), -1e6F);
  float score = 0;
  for (const Json& merge : root.find("model")->find("merges")->as_array()) {
    const std::string &left = merge.as_array()[0].as_string(), &right = merge.as_array()[1].as_string();
    out.merges.push_back(left + " " + right);
    float& known = out.scores[static_cast<size_t>(vocab.find(left + right)->as_int())];
    known = std::max(known, score--);
  }
  out.add_space_prefix = one.name == "mistral";
  return out;
}

TEST(TokenizerFiles, TheGgufFormsOfCharacterBpeGiveTheIdsOfTheTokenizerJson) {
  size_t n = 0;
  for (const auto& one : own_cases()) {
    for (const char* model : {"llama", "gemma4"}) {
      if (one.name != "gemma" && (one.name != "mistral" || std::string(model) == "gemma4")) continue;
      const auto tokenizer = Tokenizer::from_gguf(as_gguf(one, model), "f.gguf");
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
      for (const auto& v : one.vectors) {
        if (v.text) {
          EXPECT_EQ(tokenizer->encode(*v.text), v.ids) << one.name << " " << model << ": " << *v.text;
        }
        EXPECT_EQ(tokenizer->decode(v.ids, true), v.decoded_skip) << one.name << " " << model;
      }
      ++n;
    }
  }
  EXPECT_EQ(n, 3u);
}

/// Merging by looking up every joint text, as tiktoken and SentencePiece do it.
TokenIds merge_by_lookup(const std::string& text, const std::vector<std::string>& entries,
                         const std::vector<uint32_t>& ranks) {
  std::vector<std::string> symbols;
  for (const char c : text) symbols.emplace_back(1, c);
  const auto rank = [&](const std::string& piece) {
    const auto it = std::find(entries.begin(), entries.end(), piece);
    return it == entries.end() ? kUnranked : ranks[static_cast<size_t>(it - entries.begin())];
  };
  for (;;) {
    size_t best = 0;
    uint32_t best_rank = kUnranked;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const uint32_t r = rank(symbols[i] + symbols[i + 1]);
      if (r < best_rank) best = i, best_rank = r;
    }
    if (best_rank == kUnranked) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  TokenIds ids;
  for (const std::string& symbol : symbols) {
    ids.push_back(static_cast<TokenId>(std::find(entries.begin(), entries.end(), symbol) - entries.begin()));
  }
  return ids;
}

TEST(RankedMerges, OneRulePerEntryGivesWhatLookingUpEveryPairGives) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> entries = {"a", "b", "c"};
    while (entries.size() < 20) {
      std::string text;
      for (size_t n = 2 + random() % 5; text.size() < n;) text += static_cast<char>('a' + random() % 3);
      if (std::find(entries.begin(), entries.end(), text) == entries.end()) entries.push_back(text);
    }
    std::vector<uint32_t> ranks;
    for (size_t i = 0; i < entries.size(); ++i)
      ranks.push_back(static_cast<uint32_t>(random() % 12));  // some are equal
    Vocabulary vocabulary(entries.size(), entries.size(), 200);
    for (size_t i = 0; i < entries.size(); ++i) vocabulary.insert(static_cast<TokenId>(i), entries[i]);
    const auto bpe = Bpe::create_ranked(std::move(vocabulary), ranks, {}, {});
    ASSERT_TRUE(bpe.ok());
    BpeScratch scratch;
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (size_t n = 1 + random() % 70; text.size() < n;) text += static_cast<char>('a' + random() % 3);
      TokenIds ids;
      bpe->encode(text, scratch, ids);
      EXPECT_EQ(ids, merge_by_lookup(text, entries, ranks)) << text;
    }
  }
}

TEST(TokenizerFiles, ACharacterOfByteTokensComesOutWhole) {
  const Tokenizer tokenizer = load(kCases[0]);
  Detokenizer stream(tokenizer);
  std::string out;
  for (const char* token : {"<0xE6>", "<0xBC>", "<0xA2>"}) {
    stream.push(tokenizer.find(token), out);
    EXPECT_EQ(out, "");
  }
  stream.push(tokenizer.find("a"), out);
  EXPECT_EQ(out, "漢a");
}

TEST(TokenizerFiles, AFileThatIsCutOffIsRefusedOrStillATokenizer) {
  for (const FileCase& one : kCases) {
    const std::string bytes = read_text(kFiles / one.name / one.file);
    size_t n_refused = 0;
    for (size_t size = 0; size < bytes.size(); size += 1 + size / 20) {
      const auto tokenizer = read(one, std::string_view(bytes).substr(0, size), Json());
      if (tokenizer.ok()) {
        EXPECT_NO_FATAL_FAILURE((void)tokenizer->encode("Hello ▁ world"));
      } else {
        ++n_refused;
        EXPECT_EQ(tokenizer.error().message.find(std::string("dir/") + one.file + ": "), 0u);
      }
    }
    EXPECT_GT(n_refused, 20u) << one.name;
  }
}

TEST(TokenizerFiles, ErrorsSayWhatIsWrongAndWhatIsKnown) {
  const auto tiktoken = [](std::string_view text, const char* file) {
    return Tokenizer::from_tiktoken(text, {}, file).error().message;
  };
  EXPECT_NE(tiktoken("IQ== 0\n", "a/b.tiktoken").find("a/b.tiktoken: a tiktoken file holds no pattern"),
            std::string::npos);
  EXPECT_NE(tiktoken("IQ== 0\n", "b.tiktoken").find("qwen.tiktoken (QWenTokenizer)"), std::string::npos);
  EXPECT_EQ(tiktoken("IQ== 0\nIg=\n", "qwen.tiktoken"), "qwen.tiktoken: line 2 is not a token in base64 and its rank");
  EXPECT_EQ(tiktoken("IQ== 0\nIg== 0\n", "qwen.tiktoken"), "qwen.tiktoken: line 2: the rank 0 occurs twice");
  EXPECT_EQ(tiktoken("IQ== 99999999999\n", "qwen.tiktoken"),
            "qwen.tiktoken: line 1: the rank 99999999999 is out of range");
  EXPECT_NE(tiktoken("IQ== 0\n", "hy.tiktoken").find("no token for the byte 0 among 1 tokens"), std::string::npos);
  const auto spm = [](std::string_view bytes) { return Tokenizer::from_sentencepiece(bytes, {}, "f").error().message; };
  EXPECT_NE(spm("\x0A\x05"
                "abc")
                .find("field 1 has 5 bytes, 3 are left"),
            std::string::npos);
  EXPECT_NE(spm(std::string("\x0A\x03\x0A\x01"
                            "a"
                            "\x12\x02\x18\x04",
                            9))
                .find("type 4 (WORD or CHAR)"),
            std::string::npos);
  EXPECT_NE(spm("<!DOCTYPE html>").find("web page"), std::string::npos);
  EXPECT_NE(Tokenizer::from_tekken("{}", {}, "f").error().message.find("this is no tekken file"), std::string::npos);
}

TEST(TokenizerFiles, EndsThatAGgufFileMarksAsOrdinaryAreSpecial) {
  GgufVocabulary v;
  v.model = "gpt2";
  v.tokens = {"a", "<|im_end|>", "<think>", "<|eot_id|>"};
  v.token_types = {1, 1, 4, 4};
  const auto tokenizer = Tokenizer::from_gguf(v, "f.gguf");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_TRUE(tokenizer->is_special(3));
  EXPECT_FALSE(tokenizer->is_special(2));
  EXPECT_EQ(tokenizer->encode("a<|im_end|>"), TokenIds({0, 1}));
  EXPECT_EQ(tokenizer->encode("a<|im_end|>", {false, false}), TokenIds({0}));
  EXPECT_NE(tokenizer->note().find("tokenizer.ggml.pre is missing"), std::string::npos);
  v.pre = "qwen2";
  EXPECT_EQ(Tokenizer::from_gguf(v, "f.gguf")->note(), "");
}

}  // namespace
}  // namespace colibri::text

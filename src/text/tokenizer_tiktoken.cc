// Tokenizer::from_tiktoken and from_tekken: vocabularies of byte strings with ranks.
//
// The better rank merges first, and a piece that is an entry is that token, as the library tiktoken does it. A tiktoken
// file holds the ranks alone; what belongs to it stands in the Python code of its family, and in the table below.
#include <algorithm>
#include <array>
#include <charconv>

#include "base/foreign_text.h"
#include "text/added_token_list.h"
#include "text/base64.h"
#include "text/byte_level.h"
#include "text/component.h"
#include "text/gguf_pre_tokenizers.h"
#include "text/ranked_merges.h"
#include "text/tables.h"

namespace colibri::text {
namespace {

Error invalid(const std::string& what) { return {ErrorCode::kInvalidModel, what}; }

/// Entries by id. The bytes are spelled with the byte-level letters.
class RankedVocabulary {
 public:
  /// `largest`: ids above it are damage.
  Status add(int64_t id, std::string_view base64, int64_t largest) {
    if (id < 0 || id > largest) return invalid("the rank " + std::to_string(id) + " is out of range");
    bytes_.clear();
    if (!append_base64(base64, bytes_) || bytes_.empty()) {
      return invalid("the token of rank " + std::to_string(id) + " is no base64");
    }
    if (static_cast<size_t>(id) >= spellings_.size()) spellings_.resize(static_cast<size_t>(id) + 1);
    std::string& spelling = spellings_[static_cast<size_t>(id)];
    if (!spelling.empty()) return invalid("the rank " + std::to_string(id) + " occurs twice");
    append_byte_letters(bytes_, spelling);
    return {};
  }

  /// kInvalidModel when a byte is missing: then the file is not complete.
  Result<Vocabulary> finish() const {
    size_t n_entries = 0, n_bytes = 0;
    for (const std::string& spelling : spellings_) n_entries += !spelling.empty(), n_bytes += spelling.size();
    Vocabulary vocabulary(spellings_.size(), n_entries, n_bytes);
    for (size_t id = 0; id < spellings_.size(); ++id) {
      if (!spellings_[id].empty()) vocabulary.insert(static_cast<TokenId>(id), spellings_[id]);
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (vocabulary.find(byte_letter(static_cast<uint8_t>(byte))) >= 0) continue;
      return invalid("no token for the byte " + std::to_string(byte) + " among " + std::to_string(n_entries) +
                     " tokens; the file is not complete");
    }
    return vocabulary;
  }

 private:
  std::vector<std::string> spellings_;
  std::string bytes_;
};

Result<std::unique_ptr<Tokenizer::Tables>> build_tables(Vocabulary vocabulary, const AddedTokenList& list,
                                                        const std::vector<std::string_view>& patterns) {
  const std::vector<AddedToken> added = list.tokens();
  std::vector<uint32_t> ranks(vocabulary.n_ids(), kUnranked);
  for (size_t id = 0; id < ranks.size(); ++id) {
    if (!vocabulary.spelling(static_cast<TokenId>(id)).empty()) ranks[id] = static_cast<uint32_t>(id);
  }
  BpeOptions options;
  options.byte_level = options.ignore_merges = true;
  COLIBRI_ASSIGN(auto bpe, Bpe::create_ranked(std::move(vocabulary), ranks, options, list.special()));
  COLIBRI_ASSIGN(auto tables, Tokenizer::Tables::create(std::move(bpe), added));
  COLIBRI_ASSIGN(tables->pre_tokenizer, PreTokenizer::isolating(patterns, true));
  tables->decoder = Decoder::byte_level();
  return tables;
}

AddedToken special_token(std::string content, TokenId id) {
  AddedToken token;
  token.content = std::move(content);
  token.id = id;
  token.special = true;
  return token;
}

void set_ends(const Json& config, bool add_bos, Tokenizer::Tables& tables) {
  tables.bos = tables.role_id(config.find("bos_token"));
  tables.eos = tables.role_id(config.find("eos_token"));
  if (tables.bos >= 0 && flag(config, "add_bos_token", add_bos)) tables.prefix.push_back(tables.bos);
  if (tables.eos >= 0 && flag(config, "add_eos_token", false)) tables.suffix.push_back(tables.eos);
}

// ---- tiktoken ------------------------------------------------------------------------------------------------------

/// Special tokens whose texts are a number: "<|extra_0|>" and so on.
struct Numbered {
  std::string_view before, after;
  int count = 0;
  bool by_id = false;  ///< the number is the id
};

struct Family {
  std::string_view file;             ///< name of the rank file
  std::string_view tokenizer_class;  ///< in tokenizer_config.json
  std::string_view pre;              ///< pattern: the name in gguf_pre_tokenizers.h
  bool nfc = false;
  std::vector<std::string_view> special;  ///< behind the ranks, in this order
  Numbered more;
};

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = {
      {"qwen.tiktoken",
       "QWenTokenizer",
       "qwen2",
       true,
       {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
       {"<|extra_", "|>", 205}},
      {"qwen3_6.tiktoken",
       "",
       "qwen35",
       true,
       {"<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|object_ref_start|>",
        "<|object_ref_end|>",
        "<|box_start|>",
        "<|box_end|>",
        "<|quad_start|>",
        "<|quad_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|vision_pad|>",
        "<|image_pad|>",
        "<|video_pad|>",
        "<tool_call>",
        "</tool_call>",
        "<|fim_prefix|>",
        "<|fim_middle|>",
        "<|fim_suffix|>",
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
        "<tool_response>",
        "</tool_response>",
        "<think>",
        "</think>",
        "<|audio_start|>",
        "<|audio_end|>",
        "<tts_pad>",
        "<tts_text_bos>",
        "<tts_text_eod>",
        "<tts_text_bos_single>",
        "<|audio_pad|>"},
       {}},
      {"hy.tiktoken",
       "HYTokenizer",
       "hunyuan",
       true,
       {"<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"},
       {"<|extra_", "|>", 205}},
      {"tiktoken.model", "TikTokenTokenizer", "kimi-k2", false, {}, {"<|reserved_token_", "|>", 256, true}},
  };
  return kFamilies;
}

/// By the class that the configuration names, else by the name of the file.
const Family* find_family(const Json& config, std::string_view source) {
  const Json* name = config.find("tokenizer_class");
  for (const Family& family : families()) {
    if (name && name->is_string() && !family.tokenizer_class.empty() && name->as_string() == family.tokenizer_class) {
      return &family;
    }
  }
  const std::string_view file = source.substr(source.find_last_of("/\\") + 1);
  for (const Family& family : families()) {
    if (family.file == file) return &family;
  }
  return nullptr;
}

Error unknown_family() {
  std::string known;
  for (const Family& family : families()) {
    known.append(known.empty() ? "" : ", ").append(family.file);
    if (!family.tokenizer_class.empty()) known.append(" (").append(family.tokenizer_class).append(")");
  }
  return {ErrorCode::kUnsupported,
          "a tiktoken file holds no pattern, and neither its name nor tokenizer_class in tokenizer_config.json tells "
          "one; known are " +
              known};
}

/// Lines of base64, a blank and the rank.
Result<Vocabulary> read_ranks(std::string_view text) {
  RankedVocabulary vocabulary;
  // Ranks may have holes, but not so many that the file says nothing about the memory they take.
  const auto largest = 2 * std::count(text.begin(), text.end(), '\n') + 1024;
  for (size_t n = 1; !text.empty(); ++n) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t blank = std::min(line.find(' '), line.size());
    const std::string_view number = line.substr(std::min(blank + 1, line.size()));
    int64_t rank = -1;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    if (number.empty() || error != std::errc() || stop != number.data() + number.size()) {
      return invalid("line " + std::to_string(n) + " is not a token in base64 and its rank");
    }
    COLIBRI_TRY(vocabulary.add(rank, line.substr(0, blank), largest).with_context("line " + std::to_string(n)));
  }
  return vocabulary.finish();
}

/// What tokenizer_config.json names, then the family's own tokens on the ids that are left.
Status collect_special(const Family& family, const Json& config, AddedTokenList& list, TokenId n_ranks) {
  COLIBRI_TRY(list.add_from_config(config));
  std::vector<TokenId> taken;
  for (const AddedToken& token : list.tokens()) taken.push_back(token.id);
  TokenId id = n_ranks;
  const auto add = [&](std::string content) {
    if (std::find(taken.begin(), taken.end(), id) == taken.end()) list.add(special_token(std::move(content), id));
    ++id;
  };
  for (const std::string_view content : family.special) add(std::string(content));
  for (int i = 0; i < family.more.count; ++i) {
    const int number = family.more.by_id ? id : i;
    add(std::string(family.more.before) + std::to_string(number) + std::string(family.more.after));
  }
  return {};
}

Result<std::unique_ptr<Tokenizer::Tables>> build_tiktoken(std::string_view text, const Json& config,
                                                          std::string_view source) {
  if (std::string what = describe_foreign_text(text); !what.empty()) return invalid(what);
  const Family* family = find_family(config, source);
  if (!family) return unknown_family();
  COLIBRI_ASSIGN(auto vocabulary, read_ranks(text));
  AddedTokenList list(vocabulary, AddedTokenList::Ids::kNamed);
  COLIBRI_TRY(collect_special(*family, config, list, static_cast<TokenId>(vocabulary.n_ids())));
  const GgufPreTokenizer& pre = *find_gguf_pre_tokenizer(family->pre);
  COLIBRI_ASSIGN(auto tables, build_tables(std::move(vocabulary), list, pre.patterns));
  if (family->nfc) tables->normalizer = Normalizer::normal_form(NormalForm::kNfc);
  set_ends(config, false, *tables);
  tables->finish();
  return tables;
}

// ---- tekken --------------------------------------------------------------------------------------------------------

// Files up to version 7 do not list their special tokens.
constexpr std::array<std::string_view, 20> kTekkenSpecial = {"<unk>",
                                                             "<s>",
                                                             "</s>",
                                                             "[INST]",
                                                             "[/INST]",
                                                             "[AVAILABLE_TOOLS]",
                                                             "[/AVAILABLE_TOOLS]",
                                                             "[TOOL_RESULTS]",
                                                             "[/TOOL_RESULTS]",
                                                             "[TOOL_CALLS]",
                                                             "[IMG]",
                                                             "<pad>",
                                                             "[IMG_BREAK]",
                                                             "[IMG_END]",
                                                             "[PREFIX]",
                                                             "[MIDDLE]",
                                                             "[SUFFIX]",
                                                             "[SYSTEM_PROMPT]",
                                                             "[/SYSTEM_PROMPT]",
                                                             "[TOOL_CONTENT]"};

Result<int64_t> count_of(const Json& config, std::string_view key, int64_t most) {
  const Json* value = config.find(key);
  if (value && value->is_int() && value->as_int() >= 0 && value->as_int() <= most) return value->as_int();
  return invalid("config lacks the count " + std::string(key) + ", or it is too large");
}

/// The entries up to the size that the file gives itself; their ids come behind the special tokens.
Result<Vocabulary> read_tekken_vocabulary(const Json& root, int64_t n_special, int64_t n_entries) {
  const Json* entries = root.find("vocab");
  if (!entries || !entries->is_array()) return invalid("lacks the list vocab");
  if (n_entries < 0 || n_entries > static_cast<int64_t>(entries->as_array().size())) {
    return invalid("vocab has " + std::to_string(entries->as_array().size()) +
                   " tokens, config.default_vocab_size asks "
                   "for " +
                   std::to_string(n_entries));
  }
  RankedVocabulary vocabulary;
  for (int64_t rank = 0; rank < n_entries; ++rank) {
    const Json& entry = entries->as_array()[static_cast<size_t>(rank)];
    const Json* named = entry.find("rank");
    const Json* bytes = entry.find("token_bytes");
    if (!named || *named != Json(rank) || !bytes || !bytes->is_string()) {
      return invalid("vocab: entry " + std::to_string(rank) + " is not the token of that rank");
    }
    COLIBRI_TRY(vocabulary.add(rank + n_special, bytes->as_string(), n_special + n_entries));
  }
  return vocabulary.finish();
}

Status collect_tekken_special(const Json& root, int64_t n_special, AddedTokenList& list) {
  std::vector<AddedToken> tokens;
  for (int64_t id = 0; id < n_special; ++id) {
    tokens.push_back(special_token("<SPECIAL_" + std::to_string(id) + ">", static_cast<TokenId>(id)));
  }
  const Json* entries = root.find_value("special_tokens");
  for (size_t id = 0; !entries && id < std::min(kTekkenSpecial.size(), tokens.size()); ++id) {
    tokens[id].content = kTekkenSpecial[id];
  }
  for (const Json& entry : entries && entries->is_array() ? entries->as_array() : Json::Array()) {
    const Json* rank = entry.find("rank");
    COLIBRI_ASSIGN(std::string content, string_member(entry, "token_str"));
    if (!rank || !rank->is_int() || rank->as_int() < 0 || rank->as_int() >= n_special) {
      return invalid("special_tokens: \"" + content + "\" has no rank below " + std::to_string(n_special));
    }
    AddedToken& token = tokens[static_cast<size_t>(rank->as_int())];
    token.content = std::move(content);
    token.special = flag(entry, "is_control", true);
  }
  for (AddedToken& token : tokens) list.add(std::move(token));
  return {};
}

Result<std::unique_ptr<Tokenizer::Tables>> build_tekken(std::string_view text, const Json& config) {
  constexpr int64_t kMostSpecial = 1 << 16;
  COLIBRI_ASSIGN(const Json root, parse_json_file(text));
  const Json* own = root.find("config");
  if (!own || !own->is_object()) return invalid("lacks the object config; this is no tekken file");
  COLIBRI_ASSIGN(const std::string pattern, string_member(*own, "pattern"));
  COLIBRI_ASSIGN(const int64_t n_special, count_of(*own, "default_num_special_tokens", kMostSpecial));
  COLIBRI_ASSIGN(const int64_t n_ids, count_of(*own, "default_vocab_size", static_cast<int64_t>(text.size())));
  COLIBRI_ASSIGN(auto vocabulary, read_tekken_vocabulary(root, n_special, n_ids - n_special));
  AddedTokenList list(vocabulary, AddedTokenList::Ids::kNamed);
  COLIBRI_TRY(collect_tekken_special(root, n_special, list));
  COLIBRI_ASSIGN(auto tables, build_tables(std::move(vocabulary), list, {pattern}));
  Json roles = config.is_object() ? config : Json(Json::Object{});
  if (!roles.find_value("bos_token")) roles.set("bos_token", "<s>");
  if (!roles.find_value("eos_token")) roles.set("eos_token", "</s>");
  set_ends(roles, true, *tables);
  tables->finish();
  return tables;
}

}  // namespace

Result<Tokenizer> Tokenizer::from_tiktoken(std::string_view ranks, const Json& config, const std::string& source) {
  return from_tables(build_tiktoken(ranks, config, source), source);
}

Result<Tokenizer> Tokenizer::from_tekken(std::string_view tekken_json, const Json& config, const std::string& source) {
  return from_tables(build_tekken(tekken_json, config), source);
}

}  // namespace colibri::text

#include "text/gguf_pre_tokenizers.h"

#include <algorithm>

namespace colibri::text {
namespace {

// Endings shared by several patterns: line breaks with the blanks before them, then blanks, the last one left to the
// word.
#define COLIBRI_BLANKS R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define COLIBRI_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
// Capitals, then small letters: "CamelCase" is two pieces.
#define COLIBRI_CASED(before, after)                                                      \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" after \
  R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" after before

constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kHanKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kLineBreak = R"([\r\n])";

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    COLIBRI_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" COLIBRI_BLANKS;
constexpr std::string_view kQwen35 =
    COLIBRI_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" COLIBRI_BLANKS;
constexpr std::string_view kLlama3 =
    COLIBRI_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" COLIBRI_BLANKS;
constexpr std::string_view kSeedCoder =
    COLIBRI_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)" COLIBRI_BLANKS;
constexpr std::string_view kO200k =
    COLIBRI_CASED(R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)", COLIBRI_CONTRACTIONS "?") COLIBRI_BLANKS;
constexpr std::string_view kTekken = COLIBRI_CASED(R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)", "") COLIBRI_BLANKS;
constexpr std::string_view kYoutu =
    COLIBRI_CASED(R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)", COLIBRI_CONTRACTIONS "?") COLIBRI_BLANKS;
constexpr std::string_view kKimi =
    R"([\p{Han}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)" COLIBRI_CONTRACTIONS
    "?"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)" COLIBRI_CONTRACTIONS
    "?"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" COLIBRI_BLANKS;
constexpr std::string_view kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" COLIBRI_BLANKS;
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kExaoneMoe = COLIBRI_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";

// deepseek-llm lists cased letters one by one, as Unicode was then.
constexpr std::string_view kDeepseekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"
    R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepseekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
// The published form is \s+$, which looks at every blank of a run again; the first one decides.
constexpr std::string_view kBlanksAtLineEnd = R"((?<!\s)\s+$)";
constexpr std::string_view kDeepseekHan = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

// Groups of three from the right: first what is left over at the front of a number, then threes.
constexpr std::string_view kThreeDigitsFromRight =
    R"((?<!\p{N})\p{N}{1,3}(?=(?:\p{N}{3})*+(?!\p{N}))|(?<=\p{N})\p{N}{3})";
constexpr std::string_view kAfmoeScripts =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)";
constexpr std::string_view kYoutuScripts =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";

constexpr std::string_view kJais2 = COLIBRI_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S))"
    R"(|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr std::string_view kSpark =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n])"
    R"(|\s+(?!\S)|\s+)";
constexpr std::string_view kUfakzeka = R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" COLIBRI_BLANKS;
constexpr std::string_view kMinicpm5 =
    COLIBRI_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)" COLIBRI_BLANKS;
constexpr std::string_view kLines = R"([^\n]+|[\n]+)";
constexpr std::string_view kPunctuation = R"([\p{P}!-/:-@\[-`{-~])";
// As kThreeDigitsFromRight for decimal digits; published as a look-ahead, (?=(\d{3})+(?!\d)), that cuts.
constexpr std::string_view kSuperBpe = R"((?<!\d)\d{1,3}(?=(?:\d{3})*+(?!\d))|(?<=\d)\d{3})";
// Published as \d{1,3}(?=(?:\d{3})*\b), which looks at the rest of a number again for each group.
constexpr std::string_view kTinyAyaDigits = R"((?<!\d)\d{1,3}(?=(?:\d{3})*+\b)|\G(?<=\d)\d{3})";

const std::vector<GgufPreTokenizer>& table() {
  static const std::vector<GgufPreTokenizer> kTable = {
      {{"default"}, {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "a.x-4.0", "mellum", "modern-bert", "exaone4", "mpt",
        "jais", "trillion", "granite-docling", "jina-v2-es", "jina-v2-de", "jina-v1-en", "jina-v2-code", "roberta-bpe"},
       {kGpt2}},
      {{"olmo"}, {kGpt2}, true},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"}, {kDigit, kGpt2}},
      {{"qwen2", "deepseek-r1-qwen", "megrez", "kormo", "f2llmv2"}, {kQwen2}, true},
      {{"qwen35"}, {kQwen35}, true},
      {{"stablelm2", "hunyuan", "solar-open", "grok-2"}, {kQwen2}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       {kLlama3},
       false,
       true,
       true},
      {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {kLlama3}},
      {{"glm4", "glm5"}, {kLlama3}, false, true},
      {{"jais-2"}, {kJais2}},
      {{"gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"}, {kO200k}},
      {{"granite-embed-multi-97m"}, {kO200k}, false, true},
      {{"tiny_aya", "cohere2moe"}, {kTinyAyaDigits, kO200k}},
      {{"tekken"}, {kTekken}, false, true, true},
      {{"kimi-k2"}, {kKimi}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {kThreeDigits, kHanKana, kDeepseek3}},
      {{"deepseek-llm"},
       {kLineBreak, kDeepseekLetters, kDeepseekPunctuation, kBlanksAtLineEnd, kDeepseekHan, R"(\p{N}+)"}},
      {{"deepseek-coder"}, {kLineBreak, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekHan, kDigit}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailing}},
      {{"afmoe"}, {kThreeDigitsFromRight, kAfmoeScripts, kDeepseek3}},
      {{"exaone-moe"}, {kExaoneMoe}},
      {{"youtu"}, {kYoutuScripts, kYoutu}, false, true},
      {{"seed-coder"}, {kSeedCoder}},
      {{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, "[0-9][0-9][0-9]"}},
      {{"bloom", "poro-chat", "gpt3-finnish"}, {kBloom}},
      {{"viking"}, {kBloom, kDigit}},
      {{"spark2_5"}, {kThreeDigits, kHanKana, kSpark, kDigit}},
      {{"superbpe"}, {R"(\p{N}+)", kSuperBpe}},
      {{"ufakzeka"}, {kUfakzeka}},
      {{"laguna"}, {kLines, kQwen2}},
      {{"minicpm5"}, {kThreeDigits, kMinicpm5}, false, true},
      {{"chameleon"},
       {"<sentinel:[0-9]+>", "(?:IMGIMG)(?:[A-I]{1,4})Z", R"([\t\n]|    |  )", kDigit, kPunctuation, kGpt2},
       false,
       false,
       true},
      {{"gemma4", "granite-embed-multi-311m"}, {}, false, false, true, true},
      {{"sarvam-moe"}, {}, false, false, false, true},
  };
  return kTable;
}

}  // namespace

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
  if (name.empty()) name = "default";
  for (const GgufPreTokenizer& entry : table()) {
    if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end()) return &entry;
  }
  return nullptr;
}

std::string known_gguf_pre_tokenizers() {
  std::string out;
  for (const GgufPreTokenizer& entry : table()) {
    for (const std::string_view name : entry.names) out.append(out.empty() ? "" : ", ").append(name);
  }
  return out;
}

}  // namespace colibri::text

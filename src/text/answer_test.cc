// The readers of answers against tests/data/answers/vectors.jsonl, every text cut at every byte.
#include "text/answer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "text/answers/json_scanner.h"
#include "text/answers/pattern.h"
#include "text/answers/value_types.h"
#include "text/chat_messages.h"

namespace colibri::text {
namespace {

namespace fs = std::filesystem;

const fs::path kData = fs::path(COLIBRI_SOURCE_DIR) / "tests/data/answers";

std::vector<Json> vectors() {
  std::vector<Json> rows;
  std::ifstream file(kData / "vectors.jsonl", std::ios::binary);
  for (std::string line; std::getline(file, line);) rows.push_back(parse_json(line).value());
  return rows;
}

constexpr const char* kTools = R"({
  "get_weather": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
  "write_file": {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
  "search": {"type": "object", "properties": {"query": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "limits": {"type": "object"}, "tags": {"type": "array"}, "exact": {"type": "boolean"}}},
  "ping": null})";

std::vector<AnswerTool> tools() {
  std::vector<AnswerTool> list;
  const Json all = parse_json(kTools).value();
  for (const auto& [name, parameters] : all.as_object()) list.push_back({name, parameters});
  return list;
}

std::string string_or(const Json& row, const char* key, const std::string& otherwise = "") {
  const Json* value = row.find(key);
  return value != nullptr ? value->as_string() : otherwise;
}

struct Case {
  explicit Case(const Json& json) : row(json) {
    if (const Json* names = row.find("calls"))
      for (const Json& name : names->as_array()) format.calls.push_back(find_call_form(name.as_string()));
    if (const Json* name = row.find("reasoning")) format.reasoning = find_reasoning_form(name->as_string());
    if (const Json* literals = row.find("frame")) {
      frame = {literals->as_array()[0].as_string(), literals->as_array()[1].as_string()};
      format.frame = &frame;
    }
    options.tools = tools();
    options.prompt = string_or(row, "prompt");
    options.calls = row.find("no_calls") == nullptr;
    if (const Json* calls = row.find("max_calls")) options.max_calls = static_cast<int>(calls->as_int());
    text = row.find("text")->as_string();
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  const Json& row;
  AnswerFormat format;
  FrameForm frame{};
  AnswerOptions options;
  std::string text;
};

// What an answer comes to, whatever the deltas' sizes.
struct Outcome {
  AnswerDeltas deltas;
  int closed = 0;
  bool operator==(const Outcome&) const = default;
};

AnswerDeltas joined(const AnswerDeltas& deltas) {
  AnswerDeltas out;
  for (const AnswerDelta& delta : deltas) {
    const bool goes_on = !out.empty() && out.back().kind == delta.kind && delta.kind != AnswerDelta::Kind::kCall;
    if (goes_on) {
      out.back().text += delta.text;
    } else {
      out.push_back(delta);
    }
  }
  return out;
}

Outcome read(const Case& test, const std::vector<std::string_view>& pieces) {
  AnswerReader reader(test.format, test.options);
  AnswerDeltas deltas;
  for (const std::string_view piece : pieces) reader.push(piece, deltas);
  reader.finish(deltas);
  return {joined(deltas), reader.calls_closed()};
}

Json outcome_as_row(const Outcome& outcome, bool with_ids) {
  Json::Array list;
  int calls = 0;
  for (const AnswerDelta& delta : outcome.deltas) {
    Json item;
    if (delta.kind == AnswerDelta::Kind::kReasoning) item.set("reasoning", delta.text);
    if (delta.kind == AnswerDelta::Kind::kContent) item.set("content", delta.text);
    if (delta.kind == AnswerDelta::Kind::kCall) {
      item.set("call", delta.name).set("arguments", "");
      if (with_ids) item.set("id", delta.id);
      if (calls++ >= outcome.closed) item.set("open", true);
    }
    if (delta.kind == AnswerDelta::Kind::kArguments) {
      list.back().set("arguments", delta.text);
      continue;
    }
    list.push_back(item);
  }
  return list;
}

// Ids that the model did not write itself are not in the vectors.
Json without_made_ids(Json got, const Json& want) {
  for (size_t i = 0; i < got.as_array().size() && i < want.as_array().size(); ++i) {
    if (want.as_array()[i].find("id") != nullptr || got.as_array()[i].find("id") == nullptr) continue;
    Json::Object& members = got.as_array()[i].as_object();
    std::erase_if(members, [](const Json::Member& member) { return member.first == "id"; });
  }
  return got;
}

bool same_members(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object()) return a == b;
  if (a.as_object().size() != b.as_object().size()) return false;
  for (const auto& [key, value] : a.as_object())
    if (b.find(key) == nullptr || *b.find(key) != value) return false;
  return true;
}

bool same_list(const Json& a, const Json& b) {
  return std::equal(a.as_array().begin(), a.as_array().end(), b.as_array().begin(), b.as_array().end(), same_members);
}

TEST(Answer, EveryFormatIsReadAsItsVectorsSay) {
  const std::vector<Json> rows = vectors();
  ASSERT_GT(rows.size(), 140U);
  for (const Json& row : rows) {
    const Case test(row);
    const Json& want = *row.find("want");
    const Json got = without_made_ids(outcome_as_row(read(test, {test.text}), true), want);
    EXPECT_TRUE(same_list(got, want)) << row.find("name")->as_string() << "\n text " << Json(test.text).dump()
                                      << "\n want " << want.dump() << "\n got  " << got.dump();
  }
}

TEST(Answer, ArgumentsOfAClosedCallAreJson) {
  for (const Json& row : vectors()) {
    const Case test(row);
    const Outcome outcome = read(test, {test.text});
    int call = -1;
    for (const AnswerDelta& delta : outcome.deltas) {
      call += delta.kind == AnswerDelta::Kind::kCall ? 1 : 0;
      if (delta.kind != AnswerDelta::Kind::kArguments || call >= outcome.closed) continue;
      const auto parsed = parse_json(delta.text);
      EXPECT_TRUE(parsed.ok() && parsed->is_object()) << row.find("name")->as_string() << ": " << delta.text;
    }
  }
}

std::vector<std::string_view> single_bytes(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < text.size(); ++i) pieces.push_back(text.substr(i, 1));
  return pieces;
}

TEST(Answer, WhereTheTextIsCutDoesNotMatter) {
  std::mt19937 random(7);
  for (const Json& row : vectors()) {
    const Case test(row);
    const std::string_view text = test.text;
    const Outcome whole = read(test, {text});
    const std::string name = row.find("name")->as_string();
    ASSERT_EQ(read(test, single_bytes(text)), whole) << name << ", single bytes";
    for (size_t cut = 0; cut <= text.size(); ++cut)
      ASSERT_EQ(read(test, {text.substr(0, cut), text.substr(cut)}), whole) << name << ", cut at " << cut;
    for (int i = 0; i < 50; ++i) {
      size_t a = random() % (text.size() + 1), b = random() % (text.size() + 1);
      if (a > b) std::swap(a, b);
      ASSERT_EQ(read(test, {text.substr(0, a), text.substr(a, b - a), text.substr(b)}), whole)
          << name << ", cut at " << a << " and " << b;
    }
  }
}

// Every text of the vectors in every format, most of them in none of their own: the same promise for what is malformed.
TEST(Answer, AnyTextInAnyFormatIsReadTheSameHoweverItIsCut) {
  const std::vector<Json> rows = vectors();
  std::map<std::string, const Json*> formats;
  for (const Json& row : rows)
    formats.emplace((row.find("calls") != nullptr ? row.find("calls")->dump() : "") + string_or(row, "reasoning"),
                    &row);
  for (const auto& [name, row] : formats) {
    Case test(*row);
    for (const Json& other : rows) {
      test.text = other.find("text")->as_string();
      const std::string half = test.text.substr(0, test.text.size() * 2 / 3);
      for (const std::string& text : {test.text, half})
        ASSERT_EQ(read(test, single_bytes(text)), read(test, {text})) << name << ": " << text;
    }
  }
}

TEST(Answer, BytesThatAreNoUtf8BecomeReplacementCharacters) {
  AnswerReader reader(AnswerFormat{}, {});
  AnswerDeltas deltas;
  for (const std::string_view piece : {"a\xff", "b\xE2\x82", "c\xE2"}) reader.push(piece, deltas);
  reader.finish(deltas);
  ASSERT_EQ(joined(deltas).size(), 1U);
  EXPECT_EQ(joined(deltas)[0].text, "a\uFFFDb\uFFFDc\uFFFD");
}

// The text that a delta completes is there with the piece that brings it: nothing waits for the end of the answer.
TEST(Answer, DeltasComeAsSoonAsTheyAreCertain) {
  AnswerFormat format;
  format.calls = {find_call_form("hermes")};
  format.reasoning = find_reasoning_form("think");
  AnswerOptions options;
  options.prompt = "<think>\n";
  AnswerReader reader(format, options);
  const auto gives = [&](std::string_view piece) {
    AnswerDeltas deltas;
    reader.push(piece, deltas);
    return to_json(deltas).dump();
  };
  EXPECT_EQ(gives("So"), R"([{"reasoning": "So"}])");
  EXPECT_EQ(gives(" a <"), R"([{"reasoning": " a"}])");
  EXPECT_EQ(gives("b"), R"([{"reasoning": " <b"}])");
  EXPECT_EQ(gives("</think>"), "[]");
  EXPECT_EQ(gives("\n\nYes"), R"([{"content": "Yes"}])");
  EXPECT_EQ(gives("\n<tool_call>\n{\"name\": \"f"), "[]");
  const std::string begun = gives("\", \"arguments\": {");
  EXPECT_EQ(begun.find(R"([{"tool_call": {"index": 0, "id": "call_)"), 0U) << begun;
  EXPECT_NE(begun.find(R"("name": "f", "arguments": ""}}, {"tool_call": {"index": 0, "arguments": "{"}}])"),
            std::string::npos)
      << begun;
  EXPECT_EQ(gives("\"a\": 1"), R"([{"tool_call": {"index": 0, "arguments": "\"a\": 1"}}])");
  EXPECT_EQ(gives("2}}"), R"([{"tool_call": {"index": 0, "arguments": "2}"}}])");
}

TEST(Answer, IdsFollowFromTheSeedAndTheIndexAndHaveTheFormsThatTemplatesWant) {
  const auto ids = [](const char* form, const std::string& seed) {
    AnswerFormat format;
    format.calls = {find_call_form(form)};
    AnswerOptions options;
    options.id_seed = seed;
    AnswerReader reader(format, options);
    AnswerDeltas deltas;
    const std::string call = R"({"name": "f", "arguments": {}})";
    reader.push(format.calls[0]->bare ? call
                : std::string(form) == "hermes"
                    ? "<tool_call>" + call + "</tool_call>" + "<tool_call>" + call + "</tool_call>"
                    : "[TOOL_CALLS][" + call + ", " + call + "]",
                deltas);
    reader.finish(deltas);
    std::vector<std::string> list;
    for (const AnswerDelta& delta : deltas)
      if (delta.kind == AnswerDelta::Kind::kCall) list.push_back(delta.id);
    return list;
  };
  const std::vector<std::string> call = ids("hermes", "a"), nine = ids("mistral_list", "a");
  ASSERT_EQ(call.size(), 2U);
  ASSERT_EQ(nine.size(), 2U);
  EXPECT_EQ(call, ids("hermes", "a"));
  EXPECT_NE(call, ids("hermes", "b"));
  EXPECT_NE(call[0], call[1]);
  EXPECT_NE(nine[0], nine[1]);
  EXPECT_EQ(call[0].size(), 29U);
  EXPECT_EQ(nine[0].size(), 9U);
}

TEST(Answer, LongTextsWithoutAnEndTakeTimeInProportion) {
  AnswerFormat format;
  format.calls = {find_call_form("qwen_xml"), find_call_form("hermes")};
  AnswerReader reader(format, {});
  AnswerDeltas deltas;
  reader.push("<tool_call>\n<function=f>\n<parameter=p>\n", deltas);
  for (int i = 0; i < 200000; ++i) reader.push("0123456789", deltas);  // a value that is held back until it ends
  reader.push("\n</parameter>\n</function>\n</tool_call>", deltas);
  reader.finish(deltas);
  EXPECT_EQ(reader.calls_closed(), 1);
  EXPECT_GT(joined(deltas).back().text.size(), 2000000U);
}

TEST(Answer, NestingIsBounded) {
  AnswerFormat format;
  for (const char* form : {"hermes", "gemma", "lfm2"}) {
    format.calls = {find_call_form(form)};
    AnswerReader reader(format, {});
    AnswerDeltas deltas;
    const std::string head = std::string(form) == "hermes"  ? "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": "
                             : std::string(form) == "gemma" ? "<|tool_call>call:f{a:"
                                                            : "<|tool_call_start|>[f(a=";
    reader.push(head + std::string(100000, '['), deltas);
    reader.finish(deltas);
    EXPECT_EQ(reader.calls_closed(), 0);
    EXPECT_EQ(joined(deltas).back().kind, AnswerDelta::Kind::kContent) << form;
  }
}

// --- which format a template has ---

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path shared() {
  const char* shared = std::getenv("COLIBRI_SHARED");
  return shared != nullptr ? fs::path(shared) : fs::path(COLIBRI_SOURCE_DIR) / "../shared";
}

// One row per published template; a new one must be put here.
const std::map<std::string, std::string> kFormats = {
    {"Apertus-8B-Instruct", "apertus+inner"},
    {"Apriel-1.6-15b-Thinker-fixed", "tool_calls_list+steps"},
    {"Bielik-11B-v3.0-Instruct", "hermes+think"},
    {"ByteDance-Seed-OSS", "seed+seed:think"},
    {"Cohere2MoE", "cohere+cohere"},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "cohere+cohere"},
    {"GLM-4.6", "glm+think"},
    {"GLM-4.7-Flash", "glm_47+think"},
    {"GigaChat3-10B-A1.8B", "none"},
    {"GigaChat3.1-10B-A1.8B", "gigachat"},
    {"HuggingFaceTB-SmolLM3-3B", "think"},
    {"Kimi-K2-Instruct", "kimi_k2"},
    {"Kimi-K3", "kimi_k3+kimi_k3"},
    {"LFM2-8B-A1B", "lfm2"},
    {"LFM2.5-8B-A1B", "lfm2+think"},
    {"LFM2.5-Instruct", "lfm2+think"},
    {"MiMo-VL", "hermes"},
    {"MiniMax-M1", "tool_calls_lines"},
    {"MiniMax-M2", "minimax_m2+think"},
    {"Mistral-Small-3.2-24B-Instruct-2506", "mistral_id"},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen_xml+think"},
    {"NVIDIA-Nemotron-Nano-v2", "toolcall_list+think"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
    {"Qwen-QwQ-32B", "hermes+think"},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
    {"Qwen3-Coder", "qwen_xml"},
    {"Qwen3.5-4B", "qwen_xml+think"},
    {"Reka-Edge", "hermes+think"},
    {"Spark2.5", "glm_47+think"},
    {"StepFun3.5-Flash", "qwen_xml+think"},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek_v3+think"},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek_v3+think"},
    {"deepseek-ai-DeepSeek-V3.2", "dsml_v32+think"},
    {"deepseek-ai-DeepSeek-V4", "dsml_v4+think"},
    {"deepseek-ai-DeepSeek-V4-Flash-0731", "dsml_v4+think"},
    {"fireworks-ai-llama-3-firefunction-v2", "functools_list"},
    {"google-gemma-2-2b-it", "none"},
    {"google-gemma-4-31B-it", "gemma+thought"},
    {"google-gemma-4-31B-it-interleaved", "gemma+thought"},
    {"ibm-granite-granite-4.0", "hermes"},
    {"ibm-granite-granite-4.1", "hermes"},
    {"inclusionai-ling-3.0-flash", "glm+think"},
    {"llama-cpp-deepseek-r1", "deepseek_v3+think"},
    {"llama-cpp-rwkv-world", "think"},
    {"meetkai-functionary-medium-v3.1", "function"},
    {"meetkai-functionary-medium-v3.2", "none"},
    {"meta-llama-Llama-3.2-3B-Instruct", "llama_json"},
    {"meta-llama-Llama-3.3-70B-Instruct", "llama_json"},
    {"microsoft-Phi-3.5-mini-instruct", "none"},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral+THINK"},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral_list"},
    {"moonshotai-Kimi-K2", "kimi_k2"},
    {"muse-glimmer", "none"},
    {"openbmb-MiniCPM5-1B", "function_param+think"},
    {"poolside-Laguna-S-2.1", "glm_47+think"},
    {"poolside-Laguna-XS-2.1", "glm+think"},
    {"poolside-Laguna-XS.2", "glm+think"},
    {"tencent-Hy3", "hy3+think:opensource"},
    {"tokenizer-deepseek_v3", "deepseek_v3"},
    {"tokenizer-gemma3", "none"},
    {"tokenizer-qwen3", "hermes+think"},
    {"unsloth-Apriel-1.5", "tool_calls_list+steps"},
    {"unsloth-mistral-Devstral-Small-2507", "mistral"},
    {"upstage-Solar-Open-100B", "solar+solar"},
};

TEST(AnswerFormat, EveryPublishedTemplateHasItsFormat) {
  const fs::path folder = shared() / "oracle/chat_templates/templates";
  if (!fs::exists(folder)) GTEST_SKIP() << "no templates at " << folder;
  size_t seen = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    const auto wanted = kFormats.find(name);
    ASSERT_NE(wanted, kFormats.end()) << name;
    EXPECT_EQ(detect_answer_format(read_file(entry.path()), nullptr).name(), wanted->second) << name;
    ++seen;
  }
  EXPECT_EQ(seen, kFormats.size());
}

// Those whose calls are not read, or that show no calls in a history.
const std::vector<std::string> kWithoutCalls = {"GigaChat3-10B-A1.8B",
                                                "HuggingFaceTB-SmolLM3-3B",
                                                "Kimi-K2-Instruct",
                                                "LFM2-8B-A1B",
                                                "LFM2.5-Instruct",
                                                "fireworks-ai-llama-3-firefunction-v2",
                                                "google-gemma-2-2b-it",
                                                "llama-cpp-deepseek-r1",
                                                "llama-cpp-rwkv-world",
                                                "meetkai-functionary-medium-v3.2",
                                                "microsoft-Phi-3.5-mini-instruct",
                                                "muse-glimmer",
                                                "tokenizer-gemma3"};

Json context_of(const char* messages, bool prompt, const MessageForm& form) {
  Json context = parse_json(R"({"tools": [{"type": "function", "function": {"name": "look_up", "description": "d",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "x"},
      "days": {"type": "integer", "description": "y"}}, "required": ["city"]}}}],
    "bos_token": "", "eos_token": "", "documents": null})")
                     .value();
  context.set("add_generation_prompt", prompt);
  return context.set("messages", messages_for_template(parse_json(messages).value(), form));
}

// What a template writes for a call in a history is what its model was taught to write: it must be read as that call.
TEST(AnswerFormat, CallsAsPublishedTemplatesWriteThemAreRead) {
  const fs::path folder = shared() / "oracle/chat_templates/templates";
  if (!fs::exists(folder)) GTEST_SKIP() << "no templates at " << folder;
  const Json wanted = parse_json(R"({"city": "Rome <b>\n\"x\"", "days": 3})").value();
  for (const auto& [name, format_name] : kFormats) {
    if (std::find(kWithoutCalls.begin(), kWithoutCalls.end(), name) != kWithoutCalls.end()) continue;
    const std::string source = read_file(folder / (name + ".jinja"));
    const ChatTemplate chat = ChatTemplate::parse(source, name).value();
    const MessageForm form = message_form_of(chat, source);
    const std::string prompt =
        chat.render(context_of(R"([{"role": "user", "content": "Hi"}])", true, form), {}).value();
    const std::string whole = chat.render(context_of(R"([{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "abcdefghi", "type": "function", "function":
        {"name": "look_up", "arguments": "{\"city\": \"Rome <b>\\n\\\"x\\\"\", \"days\": 3}"}}]}])",
                                                     false, form),
                                          {})
                                  .value();
    size_t common = std::mismatch(prompt.begin(), prompt.end(), whole.begin(), whole.end()).first - prompt.begin();
    const size_t marker = whole.rfind('<', common == 0 ? 0 : common - 1);  // both may begin with the same bytes of one
    if (marker != std::string::npos && whole.find('>', marker) >= common) common = marker;
    AnswerOptions options;
    options.tools = {
        {"look_up",
         parse_json(R"({"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}})").value()}};
    options.prompt = whole.substr(0, common);
    AnswerReader reader(detect_answer_format(source, nullptr), options);
    AnswerDeltas deltas;
    reader.push(whole.substr(common), deltas);
    reader.finish(deltas);
    EXPECT_EQ(reader.calls_closed(), 1) << name << ": " << whole.substr(common);
    for (const AnswerDelta& delta : deltas) {
      if (delta.kind == AnswerDelta::Kind::kCall) {
        EXPECT_EQ(delta.name, "look_up") << name;
      } else if (delta.kind == AnswerDelta::Kind::kArguments) {
        const auto arguments = parse_json(delta.text);
        EXPECT_TRUE(arguments.ok() && same_members(*arguments, wanted)) << name << ": " << delta.text;
      }
    }
  }
}

TEST(AnswerFormat, TemplatesOfFamiliesThatAreNotPublishedHere) {
  const auto name = [](std::string_view source) { return detect_answer_format(source, nullptr).name(); };
  EXPECT_EQ(name("<|start|>assistant<|channel|>analysis<|message|>"), "harmony");
  EXPECT_EQ(name("{{ tools }}<|start_of_role|><|tool_call|>"), "granite_list");
  EXPECT_EQ(name("{{ tools }}<think><answer><tool_calls>[{"), "tool_calls_list+think");
  EXPECT_EQ(name("<|header_start|>{{ tools }}"), "llama_json");
  EXPECT_EQ(name("<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>"), "deepseek_v31");
  EXPECT_EQ(name("<role>HUMAN</role> <tool_call>{\"name\""), "hermes");
  EXPECT_EQ(name("{{ messages }}"), "none");
}

TEST(AnswerFormat, WhereTheTemplateIsSilentTheVocabularySays) {
  const auto has = [](std::string_view token) { return token == "<tool_call>" || token.ends_with("think>"); };
  EXPECT_EQ(detect_answer_format("{{ tools }}", has).name(), "hermes+think");
  EXPECT_EQ(detect_answer_format("{{ messages }}", has).name(), "think");
}

TEST(AnswerFormat, MarkersAreWholeTokens) {
  AnswerFormat format;
  format.calls = {find_call_form("kimi_k2")};
  EXPECT_EQ(markers_of(format), (std::vector<std::string>{"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                                                          "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                                                          "<|tool_calls_section_end|>"}));
  format.calls = {find_call_form("mistral_list")};
  EXPECT_EQ(markers_of(format), std::vector<std::string>{"[TOOL_CALLS]"});
}

// --- parts ---

TEST(JsonScanner, AgreesWithTheParserOnWhatIsJson) {
  for (const char* good : {"{}", "[]", R"({"a": [1, -0, 2.5e-3, true, false, null, "\u00e9\ud83d\ude42"]})", "\"\"",
                           "0", " [ ] ", "1e5", "[[[]]]"}) {
    EXPECT_TRUE(is_json(good)) << good;
    EXPECT_TRUE(parse_json(good).ok()) << good;
  }
  for (const char* bad : {"",
                          "{",
                          "[1,]",
                          "{\"a\"}",
                          "{\"a\":}",
                          "{,}",
                          "01",
                          "1.",
                          ".5",
                          "-",
                          "+1",
                          "tru",
                          "nul",
                          "[1 2]",
                          "\"\\x\"",
                          "\"\\ud800\"",
                          "\"\\ude42\"",
                          "\"\\ud800x\"",
                          "{a: 1}",
                          "'a'",
                          "[1]]",
                          "\"\n\"",
                          "1e",
                          "\"\\u12g4\"",
                          "{\"a\": 1 \"b\": 2}"}) {
    EXPECT_FALSE(is_json(bad)) << bad;
    EXPECT_FALSE(parse_json(bad).ok()) << bad;
  }
}

TEST(Pattern, WhatIsWrittenIsRead) {
  Written parts;
  parts.name = "f";
  parts.index = 3;
  parts.key = "k";
  parts.type = "true";
  parts.json = R"({"name": "%s", "arguments": )";
  const std::string text = write("<a>\n$J", parts) + "{}" + write("$R$~</a>", parts);
  EXPECT_EQ(text, "<a>\n{\"name\": \"f\", \"arguments\": {}}</a>");
  const Match head = match("<a>\n$J", text);
  EXPECT_EQ(head.state, Match::kYes);
  EXPECT_EQ(head.name, "f");
  EXPECT_EQ(text.substr(head.size), "{}}</a>");
  const Match function = match("<b>$F<c>", write("<b>$F<c>", parts));
  EXPECT_EQ(function.id, "functions.f:3");
  EXPECT_EQ(function.name, "f");
}

TEST(ValueTypes, ASchemaSaysWhatAValueMayBe) {
  const Json schema = parse_json(R"({"properties": {"s": {"type": "string"}, "n": {"type": ["integer", "null"]},
    "both": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "e": {"enum": ["a", "b"]}, "any": {}}})")
                          .value();
  const auto json = [&](std::string_view name, std::string_view raw) {
    return value_as_json(raw, types_of_parameter(&schema, name));
  };
  EXPECT_EQ(json("s", "12"), "\"12\"");
  EXPECT_EQ(json("n", "12"), "12");
  EXPECT_EQ(json("n", "None"), "null");
  EXPECT_EQ(json("n", "x"), "\"x\"");
  EXPECT_EQ(json("both", "12"), "12");
  EXPECT_EQ(json("both", "\"12\""), "\"\\\"12\\\"\"");
  EXPECT_EQ(json("e", "a"), "\"a\"");
  EXPECT_EQ(json("any", "[1]"), "[1]");
  EXPECT_EQ(json("unknown", " x "), "\" x \"");
}

}  // namespace
}  // namespace colibri::text

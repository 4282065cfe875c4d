#include "text/answers/format.h"

#include <algorithm>
#include <array>

#include "text/answers/pattern.h"

namespace colibri::text {
namespace {

constexpr ReasoningForm kReasoningForms[] = {
    {"think", "<think>", "</think>"},
    {"think:opensource", "<think:opensource>", "</think:opensource>"},
    {"seed:think", "<seed:think>", "</seed:think>"},
    {"THINK", "[THINK]", "[/THINK]", true},
    {"thought", "<|channel>thought", "<channel|>", true},
    {"cohere", "<|START_THINKING|>", "<|END_THINKING|>", true},
    {"inner", "<|inner_prefix|>", "<|inner_suffix|>", true},
    {"kimi_k3", "<|open|>think<|sep|>", "<|close|>think<|sep|>", true},
    {"solar", "<|think|>", "<|end|><|begin|>assistant", true},
    {"steps", "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"},
};

constexpr FrameForm kAnswer{"<answer>", "</answer>"};
constexpr FrameForm kResponse{"<response>", "</response>"};
constexpr FrameForm kCohereResponse{"<|START_RESPONSE|>", "<|END_RESPONSE|>"};
constexpr FrameForm kCohereText{"<|START_TEXT|>", "<|END_TEXT|>"};
constexpr FrameForm kKimiK3Response{"<|open|>response<|sep|>", "<|close|>response<|sep|>"};
constexpr FrameForm kSolarContent{"<|content|>", "<|end|>"};
constexpr FrameForm kFinalResponse{"[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"};

CallForm list_form(const char* name, std::string_view open, std::string_view close) {
  return {name, CallStyle::kJson, open, "$J", "$R", ", ", close};
}

CallForm glm(const char* name, std::string_view head, std::string_view parameter_head, std::string_view parameter_tail,
             std::string_view separator) {
  CallForm form{name, CallStyle::kTagged, "", head, "</tool_call>", separator, ""};
  form.parameter_head = parameter_head;
  form.parameter_tail = parameter_tail;
  return form;
}

CallForm tagged(CallForm form, std::string_view parameter_head, std::string_view parameter_tail) {
  form.style = CallStyle::kTagged;
  form.parameter_head = parameter_head;
  form.parameter_tail = parameter_tail;
  return form;
}

CallForm lines(CallForm form) {
  form.lines = true;
  return form;
}

CallForm mistral(CallForm form) {
  form.ids = IdStyle::kNine;
  return form;
}

CallForm bare(CallForm form, std::string_view json = {}) {
  form.bare = true;
  if (!json.empty()) form.json = json;
  return form;
}

CallForm ends_reasoning(CallForm form) {
  form.ends_reasoning = true;
  return form;
}

CallForm written(CallForm form, std::string_view json) {
  form.json = json;
  return form;
}

CallForm cdata(CallForm form) {
  form.cdata = true;
  return form;
}

constexpr std::string_view kParameters = R"({"name": "%s", "parameters": )";

const std::vector<CallForm>& call_forms() {
  constexpr CallStyle kJson = CallStyle::kJson;
  static const std::vector<CallForm> forms = {
      // Qwen2.5, Qwen3, Hermes, Granite 4, Ling 2, ERNIE 4.5
      {"hermes", kJson, "", "<tool_call>\n$J", "$R$;\n</tool_call>", "\n", ""},
      // Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5
      lines(tagged({"qwen_xml", kJson, "", "<tool_call>\n<function=$N>\n", "</function>$;\n</tool_call>", "\n", ""},
                   "<parameter=$K>", "</parameter>\n")),
      tagged({"seed", kJson, "", "<seed:tool_call>\n<function=$N>\n", "</function>$;\n</seed:tool_call>", "\n", ""},
             "<parameter=$K>", "</parameter>\n"),
      {"harmony", CallStyle::kHarmony, "", "", "", "", ""},
      {"deepseek_v3", kJson, "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>$N\n```json\n",
       "\n```$;<｜tool▁call▁end｜>", "\n", "<｜tool▁calls▁end｜>"},
      {"deepseek_v31", kJson, "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>$N<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
       "", "<｜tool▁calls▁end｜>"},
      tagged({"dsml_v32", kJson, "<｜DSML｜function_calls>\n", "<｜DSML｜invoke name=\"$N\">\n", "</｜DSML｜invoke>",
              "\n", "\n</｜DSML｜function_calls>"},
             "<｜DSML｜parameter name=\"$K\" string=\"$T\">", "</｜DSML｜parameter>\n"),
      tagged({"dsml_v4", kJson, "<｜DSML｜tool_calls>\n", "<｜DSML｜invoke name=\"$N\">\n", "</｜DSML｜invoke>", "\n",
              "\n</｜DSML｜tool_calls>"},
             "<｜DSML｜parameter name=\"$K\" string=\"$T\">", "</｜DSML｜parameter>\n"),
      // GLM-4.5, GLM-4.6, Ling 3
      glm("glm", "<tool_call>$N\n$!<", "<arg_key>$K</arg_key>\n<arg_value>", "</arg_value>\n", "\n"),
      // GLM-4.7, GLM-5, Laguna, Spark 2.5
      glm("glm_47", "<tool_call>$N$~$!<", "<arg_key>$K</arg_key>$~<arg_value>", "</arg_value>", ""),
      tagged({"hy3", kJson, "<tool_calls:opensource>\n", "<tool_call:opensource>$N<tool_sep:opensource>\n",
              "</tool_call:opensource>", "\n", "\n</tool_calls:opensource>"},
             "<arg_key:opensource>$K</arg_key:opensource>\n<arg_value:opensource>", "</arg_value:opensource>\n"),
      {"gemma", CallStyle::kGemma, "", "<|tool_call>call:$N{", "<tool_call|>", "", ""},
      // Mistral up to Nemo, Mixtral; 2506 and later; Small 3.2
      mistral(list_form("mistral_list", "[TOOL_CALLS]$~[", "$~]")),
      mistral({"mistral", kJson, "", "[TOOL_CALLS]$~$N$~[ARGS]", "", "", ""}),
      mistral({"mistral_id", kJson, "", "[TOOL_CALLS]$~$N$~[CALL_ID]$~$I$~[ARGS]", "", "", ""}),
      ends_reasoning({"kimi_k2", kJson, "<|tool_calls_section_begin|>",
                      "<|tool_call_begin|>$~$F$~<|tool_call_argument_begin|>", "<|tool_call_end|>", "",
                      "<|tool_calls_section_end|>"}),
      tagged({"kimi_k3", kJson, "<|open|>tools<|sep|>", "<|open|>call tool=\"$N\" index=\"$#\"<|sep|>",
              "<|close|>call<|sep|>", "", "<|close|>tools<|sep|>"},
             "<|open|>argument key=\"$K\" type=\"$T\"<|sep|>", "<|close|>argument<|sep|>"),
      tagged({"minimax_m2", kJson, "<minimax:tool_call>\n", "<invoke name=\"$N\">\n", "</invoke>", "\n",
              "\n</minimax:tool_call>"},
             "<parameter name=\"$K\">", "</parameter>\n"),
      {"lfm2", CallStyle::kPython, "<|tool_call_start|>$~[", "$N(", "", ", ", "$~]$;<|tool_call_end|>"},
      list_form("granite_list", "<|tool_call|>$~[", "$~]$;<|/tool_call|>"),
      list_form("toolcall_list", "<TOOLCALL>$~[", "$~]$;</TOOLCALL>"),
      // Hunyuan A13B, Apriel
      list_form("tool_calls_list", "<tool_calls>$~[", "$~]$;</tool_calls>"),
      {"tool_calls_lines", kJson, "<tool_calls>\n", "$J", "$R", "\n", "\n</tool_calls>"},
      list_form("functools_list", "functools$~[", "$~]"),
      written(list_form("cohere", "<|START_ACTION|>$~[\n", "\n]$;<|END_ACTION|>"),
              R"({"tool_call_id": "0", "tool_name": "%s", "parameters": )"),
      {"apertus", kJson, "<|tools_prefix|>$~[", "{\"$N\":$~", "}", ", ", "$~]$;<|tools_suffix|>"},
      {"gigachat", kJson, "", "<|function_call|>$J", "$R", "", ""},
      {"solar", kJson, "<|tool_calls|>", "<|tool_call:begin|>$I<|tool_call:name|>$N<|tool_call:args|>",
       "<|tool_call:end|>", "", ""},
      {"function", kJson, "", "<function=$N>", "</function>", "", ""},
      cdata(tagged({"function_param", kJson, "", "<function name=\"$N\">", "</function>", "\n", ""},
                   "<param name=\"$K\">", "</param>")),
      // Llama 3 and 4, which mark calls by a token or not at all
      written({"llama_tag", kJson, "", "<|python_tag|>$J", "$R", "; ", ""}, kParameters),
      written({"llama_start", kJson, "", "<|python_start|>$J", "$R$;<|python_end|>", "; ", ""}, kParameters),
      bare({"llama_json", kJson, "", "$J", "$R", "; ", ""}, kParameters),
      {"llama_python", CallStyle::kPython, "<|python_start|>$~[", "$N(", "", ", ", "$~]$;<|python_end|>"},
      bare({"python", CallStyle::kPython, "[", "$N(", "", ", ", "$~]"}),
  };
  return forms;
}

struct CallRule {
  std::array<std::string_view, 2> needles;  // all of them in the template
  std::array<const char*, 4> forms;
};
// The first that applies; what is said more exactly stands first.
constexpr CallRule kCallRules[] = {
    {{"<|channel|>", "<|message|>"}, {"harmony"}},
    {{"｜DSML｜", "function_calls>"}, {"dsml_v32"}},
    {{"｜DSML｜", "tool_calls>"}, {"dsml_v4"}},
    {{"dsml_token", "function_calls>"}, {"dsml_v32"}},
    {{"dsml_token", "tool_calls>"}, {"dsml_v4"}},
    {{"<｜tool▁sep｜>", "```json"}, {"deepseek_v3", "deepseek_v31"}},
    {{"<｜tool▁sep｜>"}, {"deepseek_v31", "deepseek_v3"}},
    {{"<|tool_call_argument_begin|>"}, {"kimi_k2"}},
    {{"<|open|>", "<|sep|>"}, {"kimi_k3"}},
    {{"<tool_sep{}>"}, {"hy3"}},
    {{"<tool_sep:opensource>"}, {"hy3"}},
    {{"</arg_key><arg_value>"}, {"glm_47"}},
    {{"<arg_key>", "</arg_key>\" -}}"}, {"glm_47"}},
    {{"<arg_key>"}, {"glm"}},
    {{"<minimax:tool_call>"}, {"minimax_m2"}},
    {{"<seed:tool_call>"}, {"seed"}},
    {{"<function name=", "<param name="}, {"function_param"}},
    {{"<function=", "<parameter="}, {"qwen_xml"}},
    {{"<function="}, {"function"}},
    {{"<|tool_call>call:"}, {"gemma"}},
    {{"[TOOL_CALLS]", "[CALL_ID]"}, {"mistral_id", "mistral", "mistral_list"}},
    {{"[TOOL_CALLS]", "[ARGS]"}, {"mistral", "mistral_id", "mistral_list"}},
    {{"[TOOL_CALLS]"}, {"mistral_list", "mistral", "mistral_id"}},
    {{"<|tool_call_start|>"}, {"lfm2"}},
    {{"<|tool_list_start|>"}, {"lfm2"}},
    {{"List of tools: ["}, {"lfm2"}},
    {{"<TOOLCALL>"}, {"toolcall_list"}},
    {{"<|START_ACTION|>"}, {"cohere"}},
    {{"<|tools_prefix|>"}, {"apertus"}},
    {{"<|tool_call:begin|>"}, {"solar"}},
    {{"<|function_call|>"}, {"gigachat"}},
    {{"functools["}, {"functools_list"}},
    {{"<tool_calls>", "<tool_calls>\\n{"}, {"tool_calls_lines", "tool_calls_list"}},
    {{"<tool_calls>"}, {"tool_calls_list", "tool_calls_lines"}},
    {{"<|tool_call|>"}, {"granite_list"}},
    {{"<tool_call>"}, {"hermes"}},
    {{"<|header_start|>", "tools"}, {"llama_json", "llama_start", "llama_python", "python"}},
    {{"<|start_header_id|>", "\"parameters\""}, {"llama_json", "llama_tag", "python"}},
    {{"<|start_header_id|>", "<|python_tag|>"}, {"llama_json", "llama_tag", "python"}},
};

struct TokenRule {
  std::string_view token;
  const char* form;
};
// For templates that show tools without showing a call.
constexpr TokenRule kTokenRules[] = {
    {"<|tool_call_start|>", "lfm2"},
    {"<|tool_calls_section_begin|>", "kimi_k2"},
    {"<minimax:tool_call>", "minimax_m2"},
    {"<seed:tool_call>", "seed"},
    {"[TOOL_CALLS]", "mistral_list"},
    {"<|tool_call|>", "granite_list"},
    {"<tool_call>", "hermes"},
};

struct ReasoningRule {
  std::string_view needle;
  const char* form;
};
constexpr ReasoningRule kReasoningRules[] = {
    {"<think{}>", "think:opensource"},
    {"<think:opensource>", "think:opensource"},
    {"<seed:think>", "seed:think"},
    {"[THINK]", "THINK"},
    {"<|channel>", "thought"},
    {"<|START_THINKING|>", "cohere"},
    {"<|inner_prefix|>", "inner"},
    {"open_tag('think')", "kimi_k3"},
    {"<|tool_call:begin|>", "solar"},
    {"[BEGIN FINAL RESPONSE]", "steps"},
    {"</think>", "think"},
    {"<think>", "think"},
};

struct FrameRule {
  std::string_view needle;
  const FrameForm* frame;
};
constexpr FrameRule kFrameRules[] = {
    {"<answer>", &kAnswer},
    {"<response>\\n", &kResponse},
    {"<|START_RESPONSE|>", &kCohereResponse},
    {"<|START_TEXT|>", &kCohereText},
    {"open_tag('response')", &kKimiK3Response},
    {"<|tool_call:begin|>", &kSolarContent},
    {"[BEGIN FINAL RESPONSE]", &kFinalResponse},
};

bool contains(std::string_view text, std::string_view needle) { return text.find(needle) != std::string_view::npos; }

std::vector<const CallForm*> calls_of(std::string_view source, const std::function<bool(std::string_view)>& has_token) {
  std::vector<const CallForm*> calls;
  for (const CallRule& rule : kCallRules) {
    if (!contains(source, rule.needles[0]) || !contains(source, rule.needles[1])) continue;
    for (const char* form : rule.forms)
      if (form != nullptr) calls.push_back(find_call_form(form));
    return calls;
  }
  if (!has_token || !contains(source, "tools")) return calls;
  for (const TokenRule& rule : kTokenRules)
    if (calls.empty() && has_token(rule.token)) calls.push_back(find_call_form(rule.form));
  return calls;
}

const ReasoningForm* reasoning_of(std::string_view source, const std::function<bool(std::string_view)>& has_token) {
  for (const ReasoningRule& rule : kReasoningRules)
    if (contains(source, rule.needle)) return find_reasoning_form(rule.form);
  const bool token = has_token && has_token("<think>") && has_token("</think>");
  return token ? find_reasoning_form("think") : nullptr;
}

void add_marker(std::string_view literal, std::vector<std::string>& markers) {
  if (!literal.empty() && std::find(markers.begin(), markers.end(), literal) == markers.end())
    markers.emplace_back(literal);
}

// The markers among the literals of a pattern: "<...>" and "[...]", alone or with more around them.
void add_markers(std::string_view pattern, std::vector<std::string>& markers) {
  for (size_t start = 0; start < pattern.size(); ++start) {
    const char closer = pattern[start] == '<' ? '>' : pattern[start] == '[' ? ']' : '\0';
    const size_t end = closer == '\0' ? std::string_view::npos : pattern.find(closer, start);
    if (end == std::string_view::npos) continue;
    const std::string_view marker = pattern.substr(start, end + 1 - start);
    if (!contains(marker, "$")) add_marker(marker, markers);
  }
}

}  // namespace

const CallForm* find_call_form(std::string_view name) {
  const auto found =
      std::find_if(call_forms().begin(), call_forms().end(), [&](const CallForm& form) { return form.name == name; });
  return found != call_forms().end() ? &*found : nullptr;
}

const ReasoningForm* find_reasoning_form(std::string_view name) {
  const auto* found = std::find_if(std::begin(kReasoningForms), std::end(kReasoningForms),
                                   [&](const ReasoningForm& form) { return form.name == name; });
  return found != std::end(kReasoningForms) ? found : nullptr;
}

std::string AnswerFormat::name() const {
  std::string name = calls.empty() ? "" : calls.front()->name;
  if (reasoning != nullptr) name += (name.empty() ? "" : "+") + std::string(reasoning->name);
  return name.empty() ? "none" : name;
}

AnswerFormat detect_answer_format(std::string_view template_source,
                                  const std::function<bool(std::string_view)>& has_token) {
  AnswerFormat format;
  format.calls = calls_of(template_source, has_token);
  if (format.harmony()) return format;
  format.reasoning = reasoning_of(template_source, has_token);
  for (const FrameRule& rule : kFrameRules)
    if (format.frame == nullptr && contains(template_source, rule.needle)) format.frame = rule.frame;
  return format;
}

std::vector<std::string> markers_of(const AnswerFormat& format) {
  if (format.harmony())
    return {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"};
  std::vector<std::string> markers;
  if (format.reasoning != nullptr)
    for (const std::string_view text : {format.reasoning->open, format.reasoning->close}) add_markers(text, markers);
  if (format.frame != nullptr)
    for (const std::string_view text : {format.frame->open, format.frame->close}) add_markers(text, markers);
  for (const CallForm* form : format.calls)
    for (const std::string_view text : {form->section_open, form->head, form->tail, form->separator,
                                        form->section_close, form->parameter_head, form->parameter_tail})
      add_markers(text, markers);
  if (!format.calls.empty() && format.calls.front()->style == CallStyle::kGemma) add_marker("<|\"|>", markers);
  if (!format.calls.empty() && contains(format.calls.front()->head, "｜DSML｜")) add_marker("｜DSML｜", markers);
  return markers;
}

}  // namespace colibri::text

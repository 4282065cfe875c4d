#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace colibri::text {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNow = 1770091506;  // 2026-02-03 04:05:06

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Json> read_json_lines(const fs::path& path) {
  std::vector<Json> values;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) values.push_back(parse_json(line).value());
  return values;
}

Result<std::string> render(std::string_view source, const Json& context = Json(Json::Object()),
                           RenderOptions options = {}) {
  options.now_seconds = kNow;
  auto chat_template = ChatTemplate::parse(source, "t");
  if (!chat_template.ok()) return chat_template.error();
  return chat_template->render(context, options);
}

Error error_of(std::string_view source, RenderOptions options = {}) {
  const Result<std::string> result = render(source, Json(Json::Object()), options);
  return result.ok() ? Error{ErrorCode::kUnsupported, "rendered: " + result->substr(0, 100)} : result.error();
}

std::string repeated(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// --- against jinja2 ---

// What a line of vectors wants and what came out, when they differ.
std::string difference(const Json& line, const Result<std::string>& got) {
  if (const Json* expected = line.find("expected")) {
    if (got.ok() && *got == expected->as_string()) return {};
    return "expected <" + expected->as_string() + ">, got " + (got.ok() ? "<" + *got + ">" : got.error().message);
  }
  if (const Json* raises = line.find("raises")) {
    if (!got.ok() && got.error().code == ErrorCode::kUsage && got.error().message == raises->as_string()) return {};
    return "must refuse with <" + raises->as_string() + ">, got " + (got.ok() ? *got : got.error().message);
  }
  if (!got.ok() && got.error().code != ErrorCode::kUsage) return {};
  return "must fail (" + line.find("fails")->as_string() + "), got " + (got.ok() ? *got : got.error().message);
}

TEST(ChatTemplate, RendersEveryFeatureAsJinja2) {
  const fs::path folder = fs::path(COLIBRI_SOURCE_DIR) / "tests/data/templates";
  const std::vector<Json> lines = read_json_lines(folder / "vectors.jsonl");
  ASSERT_GT(lines.size(), 600U);
  const Json& common = *lines[0].find("context");
  for (size_t i = 1; i < lines.size(); ++i) {
    const Json* file = lines[i].find("file");
    const Json* context = lines[i].find("context");
    const std::string source =
        file != nullptr ? read_file(folder / file->as_string()) : lines[i].find("template")->as_string();
    const std::string off = difference(lines[i], render(source, context != nullptr ? *context : common));
    EXPECT_EQ(off, "") << lines[i].find("name")->as_string() << ": " << source;
  }
}

fs::path shared_templates() {
  const char* shared = std::getenv("COLIBRI_SHARED");
  const fs::path root = shared != nullptr ? fs::path(shared) : fs::path(COLIBRI_SOURCE_DIR) / "../shared";
  return root / "oracle/chat_templates";
}

Json oracle_context(const Json& line) {
  Json context;
  context.set("messages", *line.find("messages"));
  context.set("tools", *line.find("tools"));
  context.set("documents", Json());
  for (const auto& [name, value] : line.find("kwargs")->as_object()) context.set(name, value);
  return context;
}

TEST(ChatTemplate, RendersPublishedTemplatesAsTransformers) {
  const fs::path folder = shared_templates();
  if (!fs::exists(folder / "vectors.jsonl")) GTEST_SKIP() << "no vectors at " << folder;
  int equal = 0, refused = 0, other = 0;
  for (const Json& line : read_json_lines(folder / "vectors.jsonl")) {
    const std::string name = line.find("template")->as_string();
    const auto got = render(read_file(folder / "templates" / (name + ".jinja")), oracle_context(line));
    const Json* error_type = line.find("error_type");
    if (error_type != nullptr && error_type->as_string() != "raise_exception") {
      ++other;  // an accident of the Python host: nothing is required of us but to return
      continue;
    }
    Json wanted = line;
    if (error_type != nullptr) wanted.set("raises", *line.find("error"));
    const std::string off = difference(wanted, got);
    EXPECT_EQ(off, "") << name << ", " << line.find("case")->as_string();
    (error_type != nullptr ? refused : equal) += off.empty() ? 1 : 0;
  }
  std::printf("published templates: %d rendered equal, %d refused as they should, %d without a requirement\n", equal,
              refused, other);
  EXPECT_GT(equal, 1000);
}

// --- the contract ---

TEST(ChatTemplate, SyntaxErrorsNameTheTemplateAndTheLine) {
  const auto result = ChatTemplate::parse("a\n{% if x %}\n{{ 1 + }}", "model/chat_template.jinja");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidModel);
  EXPECT_EQ(result.error().message, "template model/chat_template.jinja, line 3: expected an expression, found '}}'");
}

TEST(ChatTemplate, RefusalsCarryTheTemplatesOwnWords) {
  const Error error = error_of("\n{{ raise_exception('Roles must alternate!') }}");
  EXPECT_EQ(error.code, ErrorCode::kUsage);
  EXPECT_EQ(error.message, "Roles must alternate!");
}

TEST(ChatTemplate, OtherFailuresNameTheTemplateAndTheLine) {
  const Error error = error_of("a\nb\n{{ missing.attribute }}");
  EXPECT_EQ(error.code, ErrorCode::kFailed);
  EXPECT_EQ(error.message, "template t, line 3: 'missing' is undefined");
}

TEST(ChatTemplate, ErrorsAfterAMacroCallNameTheCallersLine) {
  EXPECT_EQ(error_of("{% macro m() %}\n\n\nx{% endmacro %}\n{{ m() + 1 }}").message.substr(0, 19),
            "template t, line 5:");
}

TEST(ChatTemplate, JsonNullIsNoneAndDefined) {
  Json context;
  context.set("tools", Json());
  EXPECT_EQ(render("{{ tools }} {{ tools is defined }} {{ tools is none }} {{ other is defined }}", context).value(),
            "None True True False");
}

TEST(ChatTemplate, ContextThatIsNoObjectIsAnError) { EXPECT_FALSE(render("x", Json(5)).ok()); }

TEST(ChatTemplate, NothingOutsideTheContextIsReachable) {
  for (const char* source : {"{{ ''.__class__.__mro__ }}", "{{ range.__globals__.x }}", "{{ self.x }}",
                             "{{ [].append(1) }}", "{{ {}.update({}) }}", "{{ '{0.__class__.__mro__}'.format('') }}"}) {
    EXPECT_EQ(error_of(source).code, ErrorCode::kFailed) << source;
  }
}

TEST(ChatTemplate, OneTemplateRendersInSeveralThreads) {
  const auto chat_template =
      ChatTemplate::parse(
          "{% set ns = namespace(n=0) %}{% for i in range(n) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "t")
          .value();
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  threads.reserve(texts.size());
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&chat_template, &texts, i] {
      Json context;
      context.set("n", Json(100 * (i + 1)));
      texts[static_cast<size_t>(i)] = chat_template.render(context, {}).value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts, (std::vector<std::string>{"4950", "19900", "44850", "79800"}));
}

TEST(ChatTemplate, InvalidUtf8IsASyntaxError) {
  EXPECT_EQ(error_of("a\xff\xfe{{ 1 }}").code, ErrorCode::kInvalidModel);
}

// --- bounds: hostile templates give an error, whatever they nest, repeat or grow ---

TEST(ChatTemplateBounds, SourceNestedTooDeepIsASyntaxError) {
  constexpr int kDeep = 10'000;
  const std::vector<std::string> sources = {
      "{{ " + repeated("(", kDeep) + "1" + repeated(")", kDeep) + " }}",
      "{{ " + repeated("[", kDeep) + repeated("]", kDeep) + " }}",
      "{{ " + repeated("{1:", kDeep) + "1" + repeated("}", kDeep) + " }}",
      "{{ " + repeated("not ", kDeep) + "1 }}",
      "{{ " + repeated("- ", kDeep) + "1 }}",
      "{{ " + repeated("f(", kDeep) + repeated(")", kDeep) + " }}",
      "{{ " + repeated("a[", kDeep) + repeated("]", kDeep) + " }}",
      "{{ " + repeated("1 if 1 else ", kDeep) + "1 }}",
      "{{ 1" + repeated(" is in [1", kDeep) + repeated("]", kDeep) + " }}",
      "{{ 1" + repeated(" + 1", kDeep) + " }}",
      "{{ a" + repeated(".b", kDeep) + " }}",
      "{{ a" + repeated("[0]", kDeep) + " }}",
      "{{ a" + repeated("()", kDeep) + " }}",
      "{{ a" + repeated("|upper", kDeep) + " }}",
      "{{ a" + repeated(" or a", kDeep) + " }}",
      "{{ a" + repeated(" if a", kDeep) + " }}",
      "{{ a" + repeated(" is string", kDeep) + " }}",
      repeated("{% if 1 %}", kDeep) + repeated("{% endif %}", kDeep),
      repeated("{% for i in x %}", kDeep) + repeated("{% endfor %}", kDeep),
      repeated("{% macro m() %}", kDeep) + repeated("{% endmacro %}", kDeep),
      "{% set " + repeated("(", kDeep) + "a" + repeated(")", kDeep) + " = 1 %}",
  };
  for (const std::string& source : sources) {
    EXPECT_EQ(error_of(source).code, ErrorCode::kInvalidModel) << source.substr(0, 40);
  }
}

TEST(ChatTemplateBounds, LongButFlatTemplatesAreFine) {
  EXPECT_EQ(render("{{ 1" + repeated(" ~ 1", 10'000) + " }}").value().size(), 10'001U);
  EXPECT_EQ(render("{{ [1" + repeated(", 1", 10'000) + "] | length }}").value(), "10001");
  EXPECT_EQ(render("{% if 0 %}" + repeated("{% elif 0 %}x", 10'000) + "{% else %}y{% endif %}").value(), "y");
  EXPECT_EQ(render("{{ 1" + repeated(" < 2 > 1", 1'000) + " }}").value(), "True");
}

TEST(ChatTemplateBounds, EndlessRecursionIsAnError) {
  for (const char* source : {
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{% if 1 %}{% for i in [1] %}{{ a() ~ (1 + (2 * 3)) "
           "}}{% "
           "endfor %}{% endif %}{% endmacro %}{{ a() }}",
           "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
           "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
           "{% macro m(x=m2()) %}{% endmacro %}{% macro m2() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% macro m() %}{% set x %}{% filter upper %}{{ [[[[m()]]]] }}{% endfilter %}{% endset %}{% endmacro %}{{ "
           "m() }}",
       }) {
    const Error error = error_of(source);
    EXPECT_EQ(error.code, ErrorCode::kFailed) << source;
    EXPECT_NE(error.message.find("nested deeper than"), std::string::npos) << error.message;
  }
}

TEST(ChatTemplateBounds, MacrosMayNestAsDeepAsRealSchemasDo) {
  EXPECT_EQ(
      render("{% macro m(n) %}{% if n > 0 %}{% for i in [1] %}{% if true %}({{ m(n - 1) }}){% endif %}{% endfor %}{% "
             "endif %}{% endmacro %}{{ m(64) }}")
          .value(),
      repeated("(", 64) + repeated(")", 64));
}

TEST(ChatTemplateBounds, DataNestedTooDeepIsNeitherPrintedNorCompared) {
  const std::string build =
      "{% set ns = namespace(x=[], y=[]) %}{% for i in range(50000) %}{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}{% "
      "endfor %}";
  for (const char* use : {"{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x == ns.y }}", "{{ ns.x < ns.y }}",
                          "{{ ns.x in [ns.y] }}", "{{ [ns.x, ns.y] | sort }}", "{{ ns.x | string }}"}) {
    const Error error = error_of(build + use);
    EXPECT_NE(error.message.find("nested deeper than"), std::string::npos) << use << ": " << error.message;
  }
  EXPECT_EQ(render(build + "{{ ns.x | length }}").value(), "1");
  const std::string tuples =
      "{% set ns = namespace(x=(), y=()) %}{% for i in range(50000) %}{% set ns.x = (ns.x,) %}{% set ns.y = (ns.y,) "
      "%}{% "
      "endfor %}";
  EXPECT_EQ(error_of(tuples + "{{ {ns.x: 1}[ns.y] }}").code, ErrorCode::kFailed);
  EXPECT_EQ(
      error_of(
          "{% set n = namespace(x=1) %}{% for i in range(99) %}{% set n.x = (n.x, n.x) %}{% endfor %}{{ {n.x: 1} }}")
          .code,
      ErrorCode::kFailed);
  EXPECT_EQ(error_of("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}").code, ErrorCode::kFailed);
}

TEST(ChatTemplateBounds, EndlessWorkIsAnError) {
  RenderOptions options;
  options.max_steps = 200'000;
  for (const char* source : {
           "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
           "{% set s = 'ab' * 1000000 %}{% for a in range(100000) %}{% if 'x' in s %}{% endif %}{% endfor %}",
           "{% set s = 'ab' * 1000000 %}{% for a in range(100000) %}{{ s | length }}{% endfor %}",
           "{% set s = 'ab' * 1000000 %}{% for a in range(100000) %}{% set _ = s.find('x') %}{% endfor %}",
           "{% set l = [1] * 100000 %}{% for a in range(100000) %}{% if 2 in l %}{% endif %}{% endfor %}",
           "{% set s = 'a' * 1000000 %}{% for a in range(9000) %}{% set _ = s.find('a' * 500000 ~ 'b') %}{% endfor %}",
           "{% set s = 'a' * 1000000 %}{% for a in range(9000) %}{% set _ = s.rfind('b' ~ 'a' * 500000) %}{% endfor %}",
           "{% set s = 'a' * 1000000 %}{% for a in range(9000) %}{% set _ = s.strip('b' * 500000 ~ 'a') %}{% endfor %}",
           "{% set l = ['a' * 1000000 ~ 'b'] * 10000 %}{% for a in range(9) %}{{ (l | sort(false, true))[0][0] }}{% "
           "endfor %}",
           "{% set l = [1] * 100000 %}{% for a in range(100000) %}{% set _ = l | sort %}{% endfor %}",
           "{% set s = 'a' * 1000000 %}{% for a in range(100000) %}{% set _ = s[500000] %}{% endfor %}",
           "{% set s = 'é' * 90000 %}{% set t = 'é' * 90000 %}{% for a in range(90000) %}{{ s == t }}{% endfor %}",
       }) {
    const Error error = error_of(source, options);
    EXPECT_EQ(error.code, ErrorCode::kFailed) << source;
    EXPECT_NE(error.message.find("steps"), std::string::npos) << error.message;
  }
}

TEST(ChatTemplateBounds, TooMuchOutputIsAnError) {
  RenderOptions options;
  options.max_output_bytes = 1000;
  for (const char* source :
       {"{% for i in range(1000) %}abc{% endfor %}", "{{ 'x' * 1001 }}", "{% set a %}{{ 'x' * 1001 }}{% endset %}",
        "{% macro m() %}{{ 'x' * 1001 }}{% endmacro %}{% if m() %}{% endif %}"}) {
    EXPECT_NE(error_of(source, options).message.find("writes more than the 1000 bytes"), std::string::npos) << source;
  }
  EXPECT_EQ(render("{{ 'x' * 1000 }}", Json(Json::Object()), options).value().size(), 1000U);
}

TEST(ChatTemplateBounds, ValuesBeyondTheMemoryBudgetAreAnError) {
  RenderOptions options;
  options.max_value_bytes = 2 << 20;
  for (const char* source : {
           "{{ ('a' * 1000000000000) | length }}",
           "{{ ('a' * 9223372036854775807) | length }}",
           "{{ ([1] * 1000000000000) | length }}",
           "{{ ('a' * 100000) | replace('a', 'b' * 100000) | length }}",
           "{{ ('%1000000000d' % 1) | length }}",
           "{{ ('%.999999999f' % 1.5) | length }}",
           "{{ '{:>4000000000}'.format('a') | length }}",
           "{{ '{:99999999999999999999}'.format(1) }}",
           "{{ '{:.999999999f}'.format(1.5) }}",
           "{{ 'a' | center(1000000000000) | length }}",
           "{{ 'a'.ljust(9223372036854775807) | length }}",
           "{{ 'a'.zfill(1000000000000) | length }}",
           "{{ 'a\tb'.expandtabs(1000000000000) | length }}",
           "{{ 'a\\nb' | indent(1000000000000) | length }}",
           "{{ [1, [2]] | tojson(indent=1000000000) | length }}",
           "{{ [1] | batch(1000000000000, 'x') | list | length }}",
           "{{ [1] | slice(1000000000000) | list | length }}",
           "{{ (('a' * 1000) ~ ',') * 4000 | length }}",
           "{% set ns = namespace(x='ab') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
           "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
           "{% set ns = namespace(x='ab') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
           "{% set n = namespace(x=['ab']) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
           "{% set s = 'a' * 1000000 %}{{ (s ~ s) | list | length }}{{ s | list | length }}",
           "{% for i in range(100000) %}{% set x = range(1000) | list %}{% endfor %}",
           "{{ ('&' * 5000000) | escape | length }}",
           "{{ (',' * 5000000).split(',') | length }}",
       }) {
    const Error error = error_of(source, options);
    EXPECT_EQ(error.code, ErrorCode::kFailed) << source << ": " << error.message;
    EXPECT_EQ(error.message.find("template t, line 1: "), 0U) << error.message;
  }
}

TEST(ChatTemplateBounds, IntegersBeyond64BitsAreAnError) {
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}", "{{ 9223372036854775807 * 2 }}",
        "{{ 2 ** 64 }}", "{{ (-9223372036854775807 - 1) // -1 }}", "{{ -(-9223372036854775807 - 1) }}",
        "{{ (-9223372036854775807 - 1) | abs }}", "{{ range(-9223372036854775807, 9223372036854775807) }}"}) {
    EXPECT_EQ(error_of(source).code, ErrorCode::kFailed) << source;
  }
  EXPECT_EQ(error_of("{{ 9223372036854775808 }}").code, ErrorCode::kInvalidModel);
  EXPECT_EQ(render("{{ (-9223372036854775807 - 1) % -1 }}").value(), "0");
}

TEST(ChatTemplateBounds, ExtremeIndicesAndSlicesAreHarmless) {
  EXPECT_EQ(render("{% set b = 9223372036854775807 %}{{ 'abc'[b] }}{{ 'abc'[-b] }}{{ 'abc'[-b:b] }}{{ 'abc'[::b] }}{{ "
                   "'abc'[::-b - 1] }}{{ [1, 2][b:-b:-b] }}{{ range(5)[::b] | list }}{{ 'abc'.find('c', -b, b) }}{{ "
                   "'abc'.split('b', -b) }}{{ 2.5 | round(b) }}{{ 5 | round(-b) }}")
                .value(),
            "abcac[2][0]2['a', 'c']2.50");
}

}  // namespace
}  // namespace colibri::text

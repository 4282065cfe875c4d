// What the default bounds promise: hostile templates end with an error that names the bound.
#include <gtest/gtest.h>

#include "text/chat_template.h"

namespace colibri::text {
namespace {

Error error_of(std::string_view source) {
  auto chat_template = ChatTemplate::parse(source, "t");
  if (!chat_template.ok()) return chat_template.error();
  const auto text = chat_template->render(Json(Json::Object()), {});
  return text.ok() ? Error{ErrorCode::kUnsupported, "rendered"} : text.error();
}

TEST(ChatTemplateLimits, BombsEndWithAQuarterOfAGibibyte) {
  for (const char* source : {
           "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{{ ('a' * 10000) | replace('a', 'b' * 10000) | replace('b', 'c' * 10000) | length }}",
           "{{ 'a' | replace('', 'bb' * 9999) | replace('b', 'cc' * 9999) | replace('c', 'dd') | length }}",
           "{% for i in range(99999) %}{% set x = range(99999) | list %}{% endfor %}",
       }) {
    const Error error = error_of(source);
    EXPECT_EQ(error.code, ErrorCode::kFailed) << source;
    EXPECT_NE(error.message.find("more than the 268435456 bytes allowed"), std::string::npos) << error.message;
  }
}

TEST(ChatTemplateLimits, SourcesBeyondFourMebibytesAreNotParsed) {
  const std::string source(size_t{4} << 20, ' ');
  EXPECT_TRUE(ChatTemplate::parse(source, "t").ok());
  const Error error = error_of(source + " ");
  EXPECT_EQ(error.code, ErrorCode::kInvalidModel);
  EXPECT_EQ(error.message, "template t has 4194305 bytes, at most 4194304 are accepted");
}

}  // namespace
}  // namespace colibri::text

#include "base/shown_text.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "tests/testing/odd_names.h"

namespace tensorkv {
namespace {

TEST(Utf8PrefixTest, EndsBetweenCharacters) {
  EXPECT_EQ(Utf8Prefix("abc", 3), "abc");
  EXPECT_EQ(Utf8Prefix("abc", 2), "ab");
  EXPECT_EQ(Utf8Prefix("a\u00e9b", 2), "a");
  EXPECT_EQ(Utf8Prefix("a\u00e9b", 3), "a\u00e9");
  EXPECT_EQ(Utf8Prefix("\U0001F600b", 3), "");
  EXPECT_EQ(Utf8Prefix("a\U0001F600b", 4), "a");
  EXPECT_EQ(Utf8Prefix("a\U0001F600b", 5), "a\U0001F600");
}

TEST(Utf8PrefixTest, CutsWhatIsNoUtf8AtAByte) {
  EXPECT_EQ(Utf8Prefix(std::string(9, '\x80'), 6), std::string(6, '\x80'));
}

TEST(QuotedTextTest, EveryNameIsOnOneLineAndComesBack) {
  for (const std::string& name : testing::OddNames(1024)) {
    const std::string quoted = Quoted(name, 1024);
    EXPECT_EQ(quoted.find('\n'), std::string::npos);
    std::string back;
    ASSERT_TRUE(
        absl::CUnescape(quoted.substr(1, quoted.size() - 2), &back));
    EXPECT_EQ(back, name);
  }
}

TEST(QuotedTextTest, ShowsCharactersAndEscapesTheRest) {
  EXPECT_EQ(Quoted("a\"b\n\\", 80), "\"a\\\"b\\n\\\\\"");
  EXPECT_EQ(Quoted("\u00e9\u00a0", 80), "\"\u00e9\u00a0\"");
  // U+009B begins what terminals obey.
  EXPECT_EQ(Quoted("\u009b2J", 80), "\"\\302\\2332J\"");
  EXPECT_EQ(Quoted("\u0080\u009f", 80), "\"\\302\\200\\302\\237\"");
}

TEST(QuotedTextTest, TellsThatSomethingIsMissing) {
  EXPECT_EQ(Quoted("abc", 3), "\"abc\"");
  EXPECT_EQ(Quoted("abcd", 3), "\"abc...\"");
  EXPECT_EQ(Quoted("ab\u00e9", 3), "\"ab...\"");
}

}  // namespace
}  // namespace tensorkv

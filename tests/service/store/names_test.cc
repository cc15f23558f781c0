#include "service/store/names.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(CheckKeyTest, TakesOneTo1024Bytes) {
  EXPECT_OK(CheckKey("w"));
  EXPECT_OK(CheckKey(std::string(1024, 'x')));

  EXPECT_THAT(CheckKey(""), StatusIs(kInvalid, HasSubstr("got 0")));
  EXPECT_THAT(CheckKey(std::string(1025, 'x')),
              StatusIs(kInvalid, AllOf(HasSubstr("1 to 1024 bytes"),
                                       HasSubstr("got 1025"))));
}

TEST(CheckKeyTest, TakesAllOfUnicode) {
  EXPECT_OK(CheckKey("größe/重み/\xF0\x9F\x98\x80"));
  EXPECT_OK(CheckKey("\xF4\x8F\xBF\xBF"));  // U+10FFFF
}

TEST(CheckKeyTest, RejectsWhatIsNotUtf8) {
  const absl::string_view malformed[] = {
      "\x80",              // a continuation byte alone
      "\xC3",              // cut off
      "\xC0\xAF",          // overlong '/'
      "\xE0\x80\xAF",      // overlong
      "\xED\xA0\x80",      // a surrogate
      "\xF4\x90\x80\x80",  // above U+10FFFF
      "\xFF",
  };
  for (const absl::string_view key : malformed) {
    EXPECT_THAT(CheckKey(key), StatusIs(kInvalid, HasSubstr("UTF-8")));
  }
}

TEST(CheckKeyTest, RejectsControlCharacters) {
  EXPECT_THAT(CheckKey("a\nb"),
              StatusIs(kInvalid, HasSubstr("\"a\\nb\": expected no control "
                                           "characters, got one at byte 1")));
  EXPECT_FALSE(CheckKey(absl::string_view("a\0b", 3)).ok());
  EXPECT_FALSE(CheckKey("\x7f").ok());
  EXPECT_FALSE(CheckKey("\xC2\x85").ok());  // U+0085, next line
  EXPECT_OK(CheckKey("\xC2\xA0"));
}

// Names are looked at eight bytes at a time.
TEST(CheckKeyTest, FindsAControlCharacterAtEveryPlace) {
  for (const size_t size : {1, 7, 8, 9, 16, 23}) {
    const std::string name(size, '~');
    EXPECT_OK(CheckKey(name));
    for (size_t at = 0; at < size; ++at) {
      for (const char control : {'\x00', '\x1f', '\x7f'}) {
        std::string spoilt = name;
        spoilt[at] = control;
        EXPECT_THAT(CheckKey(spoilt),
                    StatusIs(kInvalid, HasSubstr(absl::StrCat("byte ", at))));
      }
    }
  }
}

TEST(CheckKeyTest, FindsAnInvalidByteAtEveryPlace) {
  for (const size_t size : {1, 7, 8, 9, 16, 23}) {
    for (size_t at = 0; at < size; ++at) {
      std::string spoilt(size, ' ');
      spoilt[at] = '\xff';
      EXPECT_FALSE(CheckKey(spoilt).ok()) << size << " " << at;
    }
  }
}

TEST(CheckNamespaceNameTest, TakesOneTo256Bytes) {
  EXPECT_OK(CheckNamespaceName(std::string(256, 'x')));
  EXPECT_FALSE(CheckNamespaceName(std::string(257, 'x')).ok());
  EXPECT_FALSE(CheckNamespaceName("").ok());
}

TEST(CheckKeyPatternTest, TakesTheEmptyPattern) {
  EXPECT_OK(CheckKeyPattern(""));
  EXPECT_OK(CheckKeyPattern("layer?.*"));
  EXPECT_FALSE(CheckKeyPattern("\x80").ok());
}

TEST(QuotedTest, EscapesAndCuts) {
  EXPECT_EQ(Quoted("a\"b\n"), "\"a\\\"b\\n\"");
  EXPECT_EQ(Quoted(std::string(100, 'x')),
            "\"" + std::string(80, 'x') + "...\"");
}

bool Matches(absl::string_view pattern, absl::string_view text) {
  return Glob(pattern).Matches(text);
}

// What a pattern means, in exponential time.
bool MatchesByDefinition(absl::string_view pattern, absl::string_view text) {
  if (pattern.empty()) return text.empty();
  const absl::string_view rest = pattern.substr(1);
  if (pattern[0] == '*') {
    return MatchesByDefinition(rest, text) ||
           (!text.empty() && MatchesByDefinition(pattern, text.substr(1)));
  }
  if (text.empty()) return false;
  const size_t length = pattern[0] == '?' && text[0] == '\xc3' ? 2 : 1;
  if (pattern[0] != '?' && pattern[0] != text[0]) return false;
  // No character begins in the middle of another.
  if (pattern[0] == '?' && text[0] == '\xa9') return false;
  return MatchesByDefinition(rest, text.substr(length));
}

// A string of the characters of `alphabet`, which `number` tells.
std::string Spelled(uint64_t number, const std::vector<std::string>& alphabet) {
  std::string text;
  for (; number > 0; number /= alphabet.size() + 1) {
    const uint64_t letter = number % (alphabet.size() + 1);
    if (letter > 0) text += alphabet[letter - 1];
  }
  return text;
}

TEST(GlobTest, MatchesByItsDefinition) {
  for (uint64_t p = 0; p < 3125; ++p) {
    const std::string pattern = Spelled(p, {"a", "*", "?", "\xc3\xa9"});
    for (uint64_t t = 0; t < 243; ++t) {
      const std::string text = Spelled(t, {"a", "\xc3\xa9"});
      ASSERT_EQ(Matches(pattern, text), MatchesByDefinition(pattern, text))
          << pattern << " " << text;
    }
  }
}

TEST(GlobTest, IsUsedAgain) {
  Glob glob("*a?b*c*");

  EXPECT_TRUE(glob.Matches("xaxbc"));
  EXPECT_FALSE(glob.Matches("xabc"));
  EXPECT_TRUE(glob.Matches("xaxbc"));
}

TEST(GlobTest, LongPatternsNeedAllOfTheirItems) {
  const std::string as(251, 'a');

  EXPECT_TRUE(Matches("*" + as + "?b*", "x" + as + "ab" + as));
  EXPECT_FALSE(Matches("*" + as + "?b*", as + "b" + as));
}

TEST(GlobTest, LiteralMatchesItselfOnly) {
  EXPECT_TRUE(Matches("fc1.w", "fc1.w"));
  EXPECT_FALSE(Matches("fc1.w", "fc1.w2"));
  EXPECT_FALSE(Matches("fc1.w", "fc1"));
  EXPECT_TRUE(Matches("", ""));
}

TEST(GlobTest, StarIsAnyRun) {
  EXPECT_TRUE(Matches("*", ""));
  EXPECT_TRUE(Matches("*.bias", "a.bias.bias"));
  EXPECT_TRUE(Matches("a*b*c", "aXXbYYbZZc"));
  EXPECT_FALSE(Matches("a*b*c", "aXXbYYbZZ"));
  EXPECT_FALSE(Matches("*.bias", "a.bias2"));
}

TEST(GlobTest, QuestionMarkIsOneCharacter) {
  EXPECT_TRUE(Matches("fc?.w", "fc1.w"));
  EXPECT_TRUE(Matches("fc?.w", "fcé.w"));
  EXPECT_FALSE(Matches("fc?.w", "fc.w"));
  EXPECT_FALSE(Matches("??", "é"));
  EXPECT_FALSE(Matches("*??", "é"));
}

// Takes more than a minute if steps multiply.
TEST(GlobTest, ManyStarsAndLongRunsEndQuickly) {
  const std::string text(1024, 'a');
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "a*";
  pattern += "b*";
  Glob stars(pattern);
  const std::string run_pattern = "*" + std::string(250, 'a') + "b*";
  Glob run(run_pattern);

  for (int i = 0; i < 100000; ++i) {
    ASSERT_FALSE(run.Matches(text));
    ASSERT_FALSE(stars.Matches(text));
  }
}

}  // namespace
}  // namespace tensorkv

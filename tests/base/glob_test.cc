#include "base/glob.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

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
    for (uint64_t t = 0; t < 81; ++t) {
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

// Takes some hundred times as long if steps multiply.
TEST(GlobTest, ManyStarsAndLongRunsEndQuickly) {
  const std::string text(1024, 'a');
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "a*";
  pattern += "b*";
  Glob stars(pattern);
  const std::string run_pattern = "*" + std::string(250, 'a') + "b*";
  Glob run(run_pattern);

  for (int i = 0; i < 2000; ++i) {
    ASSERT_FALSE(run.Matches(text));
    ASSERT_FALSE(stars.Matches(text));
  }
}

}  // namespace
}  // namespace tensorkv

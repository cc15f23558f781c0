#include "tests/testing/odd_names.h"

#include <cstdint>
#include <random>
#include <set>

#include "absl/strings/string_view.h"

namespace tensorkv::testing {
namespace {

constexpr absl::string_view kNames[] = {
    " ",
    "a",
    "A",
    ".",
    "..",
    "../../etc/passwd",
    "/",
    "/abs",
    "a//b",
    ".hidden",
    "-x",
    "--help",
    "-",
    "--",
    "--shape=2",
    "~",
    "$HOME",
    "`id`",
    "a;b",
    "a|b",
    "*",
    "?",
    "a*",
    "[",
    "]",
    "[a]",
    "[a,b]",
    "{a}",
    "{}",
    "{{x}}",
    "%s",
    "%00",
    "a,b",
    "a, b",
    "\"",
    "\"\"\"",
    "\"quoted\"",
    "'",
    "'quoted'",
    "\\",
    "\\n",
    "\\u0000",
    "a\\",
    "a=b",
    "=1+1",
    "@file",
    "#",
    "#fragment",
    "a?b&c=d",
    "&amp;",
    "<b>bold</b>",
    "<script>alert(1)</script>",
    "]]>",
    "<!--",
    "a{b=\"c\"}",
    "null",
    "true",
    "NaN",
    "0",
    "-1",
    "1e9",
    "__metadata__",
    "__proto__",
    "constructor",
    "key",
    "dtype",
    "a.b",
    "a/b",
    "a ",
    " a",
    "a  b",
    "\u00e9",
    "e\u0301",
    "\u00df",
    "\u1e9e",
    "\u0130",
    "\u0131",
    "\u05d0\u05d1\u05d2",
    "\u202eabc",
    "\u200b",
    "\ufeff",
    "\u2028",
    "\u00a0",
    "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u4e2d\u6587",
    "\uffff",
    "\U0010fffe",
    "_x",
    "$a$",
    "$",
    "a_{b}",
    "^"};

// A character that is no control: of one to four bytes.
std::string RandomCharacter(std::mt19937_64& random) {
  const auto below = [&](uint32_t bound) {
    return static_cast<uint32_t>(random() % bound);
  };
  const auto byte = [](uint32_t bits) { return static_cast<char>(bits); };
  const auto following = [&](uint32_t code, int shift) {
    return byte(0x80 | (code >> shift & 0x3f));
  };
  switch (below(6)) {
    case 0: {
      const uint32_t code = 0xa0 + below(0x800 - 0xa0);
      return {byte(0xc0 | code >> 6), following(code, 0)};
    }
    case 1: {
      const uint32_t code = 0x800 + below(0xd800 - 0x800);
      return {byte(0xe0 | code >> 12), following(code, 6), following(code, 0)};
    }
    case 2: {
      const uint32_t code = 0x10000 + below(0x100000);
      return {byte(0xf0 | code >> 18), following(code, 12), following(code, 6),
              following(code, 0)};
    }
    default:
      return {byte(0x20 + below(0x5f))};
  }
}

}  // namespace

std::vector<std::string> OddNames(size_t max_bytes, size_t num_random) {
  std::mt19937_64 random(29);
  std::set<std::string> names(std::begin(kNames), std::end(kNames));
  names.insert(std::string(max_bytes, 'x'));
  names.insert(std::string(max_bytes, '"'));
  names.insert(std::string(max_bytes, '\\'));
  for (size_t i = 0; i < num_random; ++i) {
    std::string name;
    const size_t length = 1 + random() % (i % 10 == 0 ? max_bytes : 20);
    while (name.size() + 4 <= length || name.empty()) {
      name += RandomCharacter(random);
    }
    // U+10FFFF begins the names of slices.
    if (name.compare(0, 4, "\U0010ffff") != 0) names.insert(name);
  }
  return {names.begin(), names.end()};
}

}  // namespace tensorkv::testing

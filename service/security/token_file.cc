#include "service/security/token_file.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tensorkv {
namespace {

bool IsDigest(absl::string_view text) {
  return text.size() == 2 * TokenDigest().size() &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isxdigit(c); });
}

bool IsName(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isgraph(c); });
}

}  // namespace

absl::StatusOr<TokenFile> TokenFile::Parse(absl::string_view text) {
  TokenFile file;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    // Somebody may have written a token here: the line is not shown.
    if (words.size() != 2 || !IsName(words[0]) || !IsDigest(words[1])) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", line_number,
                       ": expected a name and the 64 hexadecimal digits of a "
                       "token's SHA-256, as \"tensorkv token new\" prints"));
    }
    const std::string bytes = absl::HexStringToBytes(words[1]);
    Entry entry = {.name = std::string(words[0])};
    std::copy(bytes.begin(), bytes.end(), entry.digest.begin());
    file.entries_.push_back(std::move(entry));
  }
  return file;
}

std::optional<std::string> TokenFile::NameOf(absl::string_view token) const {
  const TokenDigest digest = DigestOf(token);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    if (ConstantTimeEquals(entry.digest, digest)) found = &entry;
  }
  if (found == nullptr) return std::nullopt;
  return found->name;
}

}  // namespace tensorkv

// Names the bearers of the tokens that a server takes.

#ifndef TENSORKV_SERVICE_SECURITY_TOKEN_FILE_H_
#define TENSORKV_SERVICE_SECURITY_TOKEN_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/bearer_token.h"

namespace tensorkv {

// The digests of tokens and the names of their bearers. It holds no token.
// Immutable, thread-safe.
class TokenFile {
 public:
  // Has no tokens.
  TokenFile() = default;

  // Parses a line per token: a name, blanks, and the token's SHA-256 as 64
  // hexadecimal digits. Names may come again, so that a token can be replaced
  // while both are good. Lines that are empty or begin with # count for
  // nothing. Errors: InvalidArgument, naming the line, but not what is in it.
  static absl::StatusOr<TokenFile> Parse(absl::string_view text);

  // Returns the name of the token's bearer; nothing if no bearer has it. The
  // time that it takes says nothing about the token.
  std::optional<std::string> NameOf(absl::string_view token) const;

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string name;
    TokenDigest digest;
  };

  std::vector<Entry> entries_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_TOKEN_FILE_H_

// Tokens: the names of values for readers, who show them again.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_VALUE_TOKEN_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_VALUE_TOKEN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "contract/call_fields.h"
#include "tensor/dtype.h"

namespace tensorkv {

// The random numbers of one life of a namespace, by which its tokens are told
// from others.
class TokenNumbers {
 public:
  TokenNumbers();

  uint64_t incarnation() const { return incarnation_; }
  // Returns the hash that tells keys apart in tokens. Its seed is a secret:
  // nobody can find names that have the same.
  uint64_t HashOf(absl::string_view key) const;

 private:
  const uint64_t incarnation_;
  const uint64_t seed_;
};

// Names a value that a reader has been given. Whatever a reader shows, it is
// compared with what there is: a token that somebody has made up can only name
// a value of the key that it is shown for, or none.
struct ValueToken {
  // Returns what a reader shows; nothing if no namespace has given that.
  static std::optional<ValueToken> Parse(absl::string_view token);
  std::string ToString() const;

  // That of the namespace's TokenNumbers.
  uint64_t incarnation = 0;
  uint64_t key_hash = 0;
  Version version = 0;
  // The key had the value at this revision, or until shortly before: here the
  // search for it begins.
  uint64_t revision = 0;
  // The dtype of the value as it was converted.
  DType dtype = DType::kUnknown;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_VALUE_TOKEN_H_

// What names a value to a reader that shows it again.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_VALUE_TOKEN_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_VALUE_TOKEN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "contract/call_fields.h"
#include "tensor/dtype.h"

namespace tensorkv {

// A value that a reader has been given. Whatever a reader shows, it is compared
// with what there is: a token that somebody has made up can only name a value
// of the key that it is shown for, or none.
struct ValueToken {
  // Returns what a reader shows; nothing if no namespace has given that.
  static std::optional<ValueToken> Parse(absl::string_view token);
  std::string ToString() const;

  // Returns whether it names a value of the same key, as the same dtype, in the
  // same life of the namespace.
  bool IsLike(const ValueToken& other) const {
    return incarnation == other.incarnation && key_hash == other.key_hash &&
           dtype == other.dtype;
  }

  // Tells this life of the namespace from all others.
  uint64_t incarnation = 0;
  uint64_t key_hash = 0;
  Version version = 0;
  // One at which the key had the value: where to look for it.
  uint64_t revision = 0;
  // That of the value as it was converted.
  DType dtype = DType::kUnknown;
};

// Returns the hash that tells keys apart in tokens.
uint64_t TokenHashOf(absl::string_view key);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_VALUE_TOKEN_H_

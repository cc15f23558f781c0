// Secrets that say who somebody is.

#ifndef TENSORKV_BASE_BEARER_TOKEN_H_
#define TENSORKV_BASE_BEARER_TOKEN_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// A token's SHA-256, which is no secret: nobody finds a token of 256 random
// bits by it.
using TokenDigest = std::array<uint8_t, 32>;

// 256 random bits as text without blanks.
std::string NewBearerToken();

TokenDigest DigestOf(absl::string_view token);

// Takes as long whatever the two are.
bool IsSame(const TokenDigest& one, const TokenDigest& other);

}  // namespace tensorkv

#endif  // TENSORKV_BASE_BEARER_TOKEN_H_

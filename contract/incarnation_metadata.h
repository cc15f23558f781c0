// Says how calls and replies name the incarnation of a server.

#ifndef TENSORKV_CONTRACT_INCARNATION_METADATA_H_
#define TENSORKV_CONTRACT_INCARNATION_METADATA_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// The key in gRPC's metadata; service.proto says what it means.
inline constexpr char kIncarnationMetadata[] = "tensorkv-incarnation";

// Returns 16 hexadecimal digits.
std::string FormatIncarnation(uint64_t incarnation);

// Parses 16 hexadecimal digits. Returns nothing for any other text.
std::optional<uint64_t> ParseIncarnation(absl::string_view text);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_INCARNATION_METADATA_H_

// Which strings may name keys, namespaces and patterns.

#ifndef TENSORKV_SERVICE_STORE_NAMES_H_
#define TENSORKV_SERVICE_STORE_NAMES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "contract/glob.h"

namespace tensorkv {

inline constexpr size_t kMaxKeyBytes = 1024;
inline constexpr size_t kMaxNamespaceBytes = 256;

// The namespace that exists from the start and that an empty name means.
inline constexpr absl::string_view kDefaultNamespace = "default";

// `name` in quotes, escaped and cut so that it is safe to show.
std::string Quoted(absl::string_view name);

// Valid UTF-8 of 1 to 1024 bytes without control characters.
// Errors: InvalidArgument.
absl::Status CheckKey(absl::string_view key);

// As a key, but of at most 256 bytes. Errors: InvalidArgument.
absl::Status CheckNamespaceName(absl::string_view name);

// Workers and barriers are named like namespaces. Errors: InvalidArgument.
absl::Status CheckWorkerName(absl::string_view name);
absl::Status CheckBarrierName(absl::string_view name);

// As the name of a namespace, or empty: what a Glob is made of.
// Errors: InvalidArgument.
absl::Status CheckKeyPattern(absl::string_view pattern);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_NAMES_H_

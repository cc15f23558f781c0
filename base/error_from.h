// Errors that say where they come from.

#ifndef TENSORKV_BASE_ERROR_FROM_H_
#define TENSORKV_BASE_ERROR_FROM_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns `status`, an error, with `source` and ": " before its message. Keeps
// its code and its payloads, which hold its reason.
inline absl::Status ErrorFrom(absl::string_view source,
                              const absl::Status& status) {
  absl::Status prefixed(status.code(),
                        absl::StrCat(source, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    // A copy of the Cord itself takes symbols that Debian's Abseil does not
    // export to shared libraries.
    prefixed.SetPayload(url, absl::Cord(std::string(payload)));
  });
  return prefixed;
}

}  // namespace tensorkv

#endif  // TENSORKV_BASE_ERROR_FROM_H_

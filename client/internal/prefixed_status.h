// Errors that say where they come from.

#ifndef TENSORKV_CLIENT_INTERNAL_PREFIXED_STATUS_H_
#define TENSORKV_CLIENT_INTERNAL_PREFIXED_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// `status`, an error, with `prefix` and ": " before its message, and with its
// reason and whatever else it carries.
inline absl::Status Prefixed(absl::string_view prefix,
                             const absl::Status& status) {
  absl::Status prefixed(status.code(),
                        absl::StrCat(prefix, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    // A copy of the Cord itself takes symbols that Debian's Abseil does not
    // export to shared libraries.
    prefixed.SetPayload(url, absl::Cord(std::string(payload)));
  });
  return prefixed;
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_PREFIXED_STATUS_H_

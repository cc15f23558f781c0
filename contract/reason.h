// Why a call failed, for programs: the reasons of tensorkv/v1/error.proto on an
// absl::Status.
//
// A status carries its reason as a serialised google.rpc.ErrorInfo, the payload
// of that type's URL, so that it crosses the wire as any gRPC client expects
// it. Pure functions, thread-safe.

#ifndef TENSORKV_CONTRACT_REASON_H_
#define TENSORKV_CONTRACT_REASON_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "contract/tables.h"

namespace tensorkv {

// The reasons of v1::Reason, where each is explained: kKeyNotFound is
// KEY_NOT_FOUND.
enum class Reason : uint8_t {
  kUnspecified = 0,
#define TENSORKV_ENUMERATOR(enumerator, name, number, ...) enumerator = number,
  TENSORKV_REASONS(TENSORKV_ENUMERATOR)
#undef TENSORKV_ENUMERATOR
};

// The type URL of the payload, and the ErrorInfo's domain.
inline constexpr absl::string_view kErrorInfoTypeUrl =
    "type.googleapis.com/google.rpc.ErrorInfo";
inline constexpr absl::string_view kErrorDomain = "tensorkv";

// Returns the name in v1::Reason: `ROUND_FAILED`.
absl::string_view ReasonName(Reason reason);
// Returns the reason of that name; kUnspecified for a name that is unknown
// here, such as one of a newer server.
Reason ReasonByName(absl::string_view name);

// Says what a reason is about: a name that error.proto lists, and its text.
struct ErrorDetail {
  template <typename Value>
  ErrorDetail(absl::string_view name, const Value& value)
      : name(name), value(absl::StrCat(value)) {}

  absl::string_view name;
  std::string value;
};

// Longer texts of details are cut to so many bytes, so that a status fits the
// trailers of a call.
inline constexpr size_t kMaxErrorDetailBytes = 1024;

// Returns `status` with that reason and these details, in place of any that it
// had.
// REQUIRES: `status` is not OK, and has the code and the details that
// error.proto lists for the reason, as tests check.
absl::Status WithReason(absl::Status status, Reason reason,
                        std::initializer_list<ErrorDetail> details = {});

struct ErrorInfo {
  Reason reason = Reason::kUnspecified;
  std::map<std::string, std::string> metadata;
};

// Returns `status` with `info`, as ErrorInfoOf has read it from another status,
// in place of any that it had. REQUIRES: `status` is not OK.
absl::Status WithInfo(absl::Status status, const ErrorInfo& info);

// Returns the reason and the details of a status; nothing if it has none of our
// domain, or malformed ones.
std::optional<ErrorInfo> ErrorInfoOf(const absl::Status& status);
// Returns the reason of a status; kUnspecified if it has none.
Reason ReasonOf(const absl::Status& status);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_REASON_H_

#include "proto/grpc_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorkv {
namespace {

constexpr bool SameCode(absl::StatusCode absl_code, grpc::StatusCode code) {
  return static_cast<int>(absl_code) == static_cast<int>(code);
}
static_assert(SameCode(absl::StatusCode::kOk, grpc::OK));
static_assert(SameCode(absl::StatusCode::kCancelled, grpc::CANCELLED));
static_assert(SameCode(absl::StatusCode::kUnknown, grpc::UNKNOWN));
static_assert(SameCode(absl::StatusCode::kInvalidArgument,
                       grpc::INVALID_ARGUMENT));
static_assert(SameCode(absl::StatusCode::kDeadlineExceeded,
                       grpc::DEADLINE_EXCEEDED));
static_assert(SameCode(absl::StatusCode::kNotFound, grpc::NOT_FOUND));
static_assert(SameCode(absl::StatusCode::kAlreadyExists, grpc::ALREADY_EXISTS));
static_assert(SameCode(absl::StatusCode::kPermissionDenied,
                       grpc::PERMISSION_DENIED));
static_assert(SameCode(absl::StatusCode::kResourceExhausted,
                       grpc::RESOURCE_EXHAUSTED));
static_assert(SameCode(absl::StatusCode::kFailedPrecondition,
                       grpc::FAILED_PRECONDITION));
static_assert(SameCode(absl::StatusCode::kAborted, grpc::ABORTED));
static_assert(SameCode(absl::StatusCode::kOutOfRange, grpc::OUT_OF_RANGE));
static_assert(SameCode(absl::StatusCode::kUnimplemented, grpc::UNIMPLEMENTED));
static_assert(SameCode(absl::StatusCode::kInternal, grpc::INTERNAL));
static_assert(SameCode(absl::StatusCode::kUnavailable, grpc::UNAVAILABLE));
static_assert(SameCode(absl::StatusCode::kDataLoss, grpc::DATA_LOSS));
static_assert(SameCode(absl::StatusCode::kUnauthenticated,
                       grpc::UNAUTHENTICATED));

constexpr absl::string_view kEllipsis = "...";

bool TravelsAsItIs(char byte) {
  return byte >= ' ' && byte <= '~' && byte != '%';
}

bool ContinuesCharacter(char byte) { return (byte & 0xC0) == 0x80; }

// The longest run of whole characters from the start of `message` that takes
// at most `limit` bytes when encoded.
absl::string_view Prefix(absl::string_view message, size_t limit) {
  size_t encoded = 0;
  size_t end = 0;
  while (end < message.size()) {
    encoded += TravelsAsItIs(message[end]) ? 1 : 3;
    if (encoded > limit) break;
    ++end;
  }
  if (end == message.size()) return message;
  while (end > 0 && ContinuesCharacter(message[end])) --end;
  return message.substr(0, end);
}

std::string Shortened(absl::string_view message) {
  if (Prefix(message, kMaxEncodedStatusMessageBytes) == message) {
    return std::string(message);
  }
  const size_t limit = kMaxEncodedStatusMessageBytes - kEllipsis.size();
  return absl::StrCat(Prefix(message, limit), kEllipsis);
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Shortened(status.message()));
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  const int code = status.error_code();
  if (code < grpc::OK || code > grpc::UNAUTHENTICATED) {
    return absl::UnknownError(
        absl::StrCat("status code ", code, ": ", status.error_message()));
  }
  return absl::Status(static_cast<absl::StatusCode>(code),
                      status.error_message());
}

}  // namespace tensorkv

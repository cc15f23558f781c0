#include "contract/grpc_status.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/shown_text.h"
#include "contract/length_delimited.h"

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

// Returns the longest run of whole characters from the start of `message` that
// takes at most `limit` bytes when encoded.
absl::string_view Prefix(absl::string_view message, size_t limit) {
  size_t encoded = 0;
  size_t end = 0;
  while (end < message.size()) {
    encoded += TravelsAsItIs(message[end]) ? 1 : 3;
    if (encoded > limit) break;
    ++end;
  }
  return Utf8Prefix(message, end);
}

std::string Shortened(absl::string_view message, size_t limit) {
  if (Prefix(message, limit) == message) return std::string(message);
  return absl::StrCat(Prefix(message, limit - kEllipsis.size()), kEllipsis);
}

// The fields of google.rpc.Status and google.protobuf.Any.
constexpr char kCodeTag = 1 << 3;
constexpr int kMessageField = 2;
constexpr int kDetailsField = 3;
constexpr int kTypeUrlField = 1;
constexpr int kValueField = 2;

// Encodes the payloads of a status, each as an Any.
std::string EncodeDetails(const absl::Status& status) {
  std::string details;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& value) {
    std::string any;
    AppendField(kTypeUrlField, url, any);
    AppendField(kValueField, std::string(value), any);
    AppendField(kDetailsField, any, details);
  });
  return details;
}

void AddPayload(absl::string_view any, absl::Status& status) {
  absl::string_view url;
  absl::string_view value;
  const bool is_valid =
      ForEachField(any, [&](int field, absl::string_view bytes) {
        if (field == kTypeUrlField) url = bytes;
        if (field == kValueField) value = bytes;
      });
  if (is_valid && !url.empty()) status.SetPayload(url, absl::Cord(value));
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string details = EncodeDetails(status);
  if (details.empty()) {
    return grpc::Status(
        code, Shortened(status.message(), kMaxEncodedStatusMessageBytes));
  }
  std::string message =
      Shortened(status.message(), kMaxDetailedStatusMessageBytes);
  std::string rpc_status = {kCodeTag, static_cast<char>(code)};
  AppendField(kMessageField, message, rpc_status);
  rpc_status += details;
  return grpc::Status(code, std::move(message), std::move(rpc_status));
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  const int code = status.error_code();
  if (code < grpc::OK || code > grpc::UNAUTHENTICATED) {
    return absl::UnknownError(
        absl::StrCat("status code ", code, ": ", status.error_message()));
  }
  absl::Status result(static_cast<absl::StatusCode>(code),
                      status.error_message());
  ForEachField(status.error_details(), [&](int field, absl::string_view bytes) {
    if (field == kDetailsField) AddPayload(bytes, result);
  });
  return result;
}

}  // namespace tensorkv

// The boundary between absl::Status and grpc::Status, for server and client.
//
// Both have the same 17 codes with the same numbers; what they mean here is
// written in tensorkv/v1/service.proto. Payloads cross as the details of a
// google.rpc.Status, where any gRPC client looks for them.
//
// Pure functions, thread-safe.

#ifndef TENSORKV_CONTRACT_GRPC_STATUS_H_
#define TENSORKV_CONTRACT_GRPC_STATUS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace tensorkv {

// Bounds the message of a status as it travels, which is percent-encoded. A
// peer drops a call whose trailers exceed its metadata limit, 8 KiB by default.
inline constexpr size_t kMaxEncodedStatusMessageBytes = 6 * 1024;
// Bounds the message of a status with details more tightly, since the details
// repeat it.
inline constexpr size_t kMaxDetailedStatusMessageBytes = 2 * 1024;

// Keeps code, message and payloads; a message too long to travel is cut,
// between two characters, and ends in "...".
grpc::Status ToGrpcStatus(const absl::Status& status);

// Keeps code, message and payloads; details that are malformed are left out.
// A number that is no status code becomes Unknown.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_GRPC_STATUS_H_

// Tells two requests by the same call_id apart.

#ifndef TENSORKV_SERVICE_STORE_CALL_FINGERPRINT_H_
#define TENSORKV_SERVICE_STORE_CALL_FINGERPRINT_H_

#include <cstdint>
#include <type_traits>

#include "contract/requests.h"
#include "google/protobuf/message.h"

namespace tensorkv {

// Return 64 bits of a request: its verb, all its fields but call_id and those
// that name the namespace, and of each tensor dtype, shape and the first 64
// bytes of the elements. They are equal for a call that is repeated, in
// whatever way it comes; most likely different for any other. Pure functions;
// they read little of large tensors, so that what they cost does not grow with
// these.
uint64_t Fingerprint(const InitRequest& request);
uint64_t Fingerprint(const PushRequest& request);
// A PushPull may be repeated with another max_reply_bytes, as that does not
// change what it does.
uint64_t Fingerprint(const PushPullRequest& request);
uint64_t Fingerprint(const SetStateRequest& request);

// Returns 64 bits of the type of a message and of all its fields.
uint64_t FingerprintOfMessage(const google::protobuf::Message& message);

// True for requests that are remembered by the store, since the namespace that
// they name may not be there. Others are remembered by their namespace.
template <typename Request>
inline constexpr bool kIsOfStore =
    std::is_same_v<Request, CreateNamespaceRequest> ||
    std::is_same_v<Request, DeleteNamespaceRequest>;

// Returns 64 bits of a request without tensors: all its fields count but
// call_id, the uid that it expects, and, of those that a namespace remembers,
// its name.
template <typename Request>
requires std::is_base_of_v<google::protobuf::Message, Request> uint64_t
Fingerprint(const Request& request) {
  Request counted = request;
  counted.clear_call_id();
  if constexpr (!std::is_same_v<Request, CreateNamespaceRequest>) {
    SetNamespaceUid(0, counted);
  }
  if constexpr (!kIsOfStore<Request>) counted.clear_namespace_();
  return FingerprintOfMessage(counted);
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_FINGERPRINT_H_

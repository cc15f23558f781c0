// Tells two requests by the same call_id apart.

#ifndef TENSORKV_SERVICE_STORE_CALL_FINGERPRINT_H_
#define TENSORKV_SERVICE_STORE_CALL_FINGERPRINT_H_

#include <cstdint>

#include "contract/method.h"
#include "contract/requests.h"

namespace tensorkv {

// Returns 64 bits of a request: its verb, all its fields but call_id, and of
// each tensor dtype, shape and the first 64 bytes of the elements. Equal for a
// call that is repeated, in whatever way it comes; most likely different for
// any other. Pure functions; they read little of large tensors, so that what
// they cost does not grow with these.
uint64_t Fingerprint(const InitRequest& request);
uint64_t Fingerprint(const PushRequest& request);
// A PushPull may be repeated with another max_reply_bytes, as that does not
// change what it does.
uint64_t Fingerprint(const PushPullRequest& request);
uint64_t Fingerprint(const SetStateRequest& request);
uint64_t Fingerprint(const DeleteRequest& request);
uint64_t Fingerprint(const BarrierRequest& request);
uint64_t Fingerprint(const CreateNamespaceRequest& request);
uint64_t Fingerprint(const DeleteNamespaceRequest& request);
// There is one for each of these with a call_id.
#define TENSORKV_FINGERPRINT(name, ...) \
  uint64_t Fingerprint(const name##Request& request);
TENSORKV_NAMESPACE_METHODS(TENSORKV_FINGERPRINT)
#undef TENSORKV_FINGERPRINT

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_FINGERPRINT_H_

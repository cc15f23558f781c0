// Room for tensors before their elements are there.

#ifndef TENSORKV_SERVICE_STORE_STAGING_H_
#define TENSORKV_SERVICE_STORE_STAGING_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "contract/data_requests.h"
#include "service/store/tensor_store.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Lets a receiver put elements where the store will keep them: it checks a
// call by its metadata, gets memory for its tensors, receives into that
// memory, and only then makes the call. Nothing of this can be seen in the
// store before that. Thread-safe.
class Staging {
 public:
  virtual ~Staging() = default;

  // Check that the store would take this call now. Its tensors need no data;
  // headroom for those without is part of the check, but for small
  // contributions that the device reads where they are received: if Allocate
  // has no memory that it reads, these need headroom there that only the call
  // asks for. The call itself is checked again, and it alone reports a failed
  // round. Errors: those of the verb that do not depend on elements.
  virtual absl::Status CheckInit(const InitRequest& request,
                                 const CallContext& context) = 0;
  virtual absl::Status CheckPush(const PushRequest& request,
                                 const CallContext& context) = 0;
  virtual absl::Status CheckSetState(const SetStateRequest& request,
                                     const CallContext& context) = 0;

  // Gives every tensor uninitialised host memory, which the namespace's budget
  // counts for as long as it lives, and a call made with these tensors does
  // not count again. Small tensors share buffers. A large one becomes the value
  // of its key without a copy, if the call is given its only reference.
  // Errors: NotFound (namespace) · ResourceExhausted; then no tensor has
  // memory.
  virtual absl::Status Allocate(absl::string_view name_space,
                                absl::Span<Tensor* const> tensors,
                                const CallContext& context) = 0;

  // Returns whether the store reads what a push to that namespace brings from
  // where it was received. Then an unpacked tensor needs no memory of
  // Allocate's, but memory that stays as it is while others hold it; its
  // elements may be at any address. The push's answer comes when nothing reads
  // them any more.
  virtual bool ReadsInPlace(absl::string_view name_space) { return false; }
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_STAGING_H_

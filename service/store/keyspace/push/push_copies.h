// Copies of a push's tensors on the device.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_COPIES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_COPIES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "contract/data_requests.h"
#include "service/store/byte_budget.h"
#include "service/store/device_work.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/push/entries_by_key.h"
#include "tensor/tensor.h"

namespace tensorkv {

// The copies of one push's tensors on the device. There are none on the host,
// where tensors stay what they are, and none of small tensors that the device
// reads where they are, if nothing but an update is to come of them. Used by
// one thread.
class PushCopies {
 public:
  // `state` outlives the object.
  explicit PushCopies(const NamespaceState* state) : state_(*state) {}

  // Returns how many bytes the copies take of the device; 0 on the host.
  static uint64_t BytesOf(const NamespaceState& state,
                          const PushRequest& request);

  // Returns how many bytes of host memory become free once the push has taken
  // effect: those of the tensors that are copied.
  static uint64_t BytesFreedOnHost(const NamespaceState& state,
                                   const PushRequest& request);

  // Allocates the copies of the request's tensors, counted as contributions, as
  // long as they live; `reservation` has BytesOf. REQUIRES: the mutex is not
  // held. Errors: those of the device.
  absl::Status Make(const PushRequest& request, Reservation reservation);

  // Returns whether the copies can be started together with the updates.
  // REQUIRES: the mutex is held.
  bool CanStartLater(const EntriesByKey& entries) const;
  // Returns whether no copy has still to be started.
  bool has_started() const { return to_start_.copies.empty(); }
  // Starts them. Nobody waits for the elements: what follows on the device sees
  // them, and copies that have been started come to their end unless the device
  // fails. REQUIRES: they are made; the mutex is not held.
  // Errors: those of the device, after which what is there is not known.
  absl::Status Start();
  // Returns the uploads that have not been started, for who starts them.
  Uploads TakeToStart() { return std::exchange(to_start_, {}); }

  // Puts the copies in the places of the request's tensors, and these in
  // theirs: what was copied goes with this object, without the mutex. REQUIRES:
  // `skip` is set of all that no update takes.
  void Swap(PushRequest& request);

 private:
  const NamespaceState& state_;
  // The copy of each entry's tensor, without data if there is none. Empty if
  // none is copied.
  std::vector<Tensor> copies_;
  Uploads to_start_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_COPIES_H_

// Copies of a push's tensors on the devices of their keys.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_COPIES_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_COPIES_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "contract/requests.h"
#include "service/store/device_set.h"
#include "service/store/keyspace/entries_by_key.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/memory_budgets.h"
#include "tensor/tensor.h"

namespace tensorkv {

// The copies of one push. There are none on the host, where tensors stay what
// they are, and none of small tensors that devices read where they are, if
// nothing but an update is to come of them. Where there are, they are made
// without the mutex, so that a key may have gone to another device meanwhile.
// Used by one thread.
class PushCopies {
 public:
  // `state` outlives the object.
  explicit PushCopies(const NamespaceState* state) : state_(*state) {}

  // What the copies take on each device; nothing on the host.
  // REQUIRES: the mutex is held.
  static BytesByDevice BytesOf(const NamespaceState& state,
                               const PushRequest& request,
                               const EntriesByKey& entries);

  // What the tensors take that are no longer needed where they have come once
  // the push has taken effect. REQUIRES: the mutex is held.
  static uint64_t BytesFreedOnHost(const NamespaceState& state,
                                   const PushRequest& request,
                                   const EntriesByKey& entries);

  void Clear() {
    copies_.clear();
    to_start_ = {};
  }

  // Says that they go where the keys of the entries are now.
  // REQUIRES: the mutex is held.
  void Place(const EntriesByKey& entries);

  // Allocates the copies of the request's tensors; `room` has BytesOf.
  // REQUIRES: they are placed; the mutex is not held.
  // Errors: those of the devices.
  absl::Status Make(const PushRequest& request, DeviceReservations& room);

  // Whether the copies can be started together with the updates.
  // REQUIRES: the mutex is held.
  bool CanStartLater(const EntriesByKey& entries) const;
  bool has_started() const { return to_start_.copies.empty(); }
  // Starts them. Nobody waits for the elements: what follows on the devices
  // sees them, and copies that have been started come to their end unless their
  // device fails. REQUIRES: they are made; the mutex is not held.
  // Errors: those of the devices, after which what is there is not known.
  absl::Status Start();
  // Those that have not been started, for who starts them.
  Uploads TakeToStart() { return std::exchange(to_start_, {}); }

  // Whether each copy is on the device of its key.
  // REQUIRES: the mutex is held.
  bool AreAtTheirKeys(const EntriesByKey& entries) const;

  // Puts the copies in the places of the request's tensors, and these in
  // theirs: what was copied goes with this object, without the mutex.
  void Swap(PushRequest& request);

 private:
  // The buffers are counted as contributions, as long as they live.
  absl::Status Allocate(const std::vector<PushEntry>& entries,
                        DeviceReservations& room);

  const NamespaceState& state_;
  // The device of each entry's key, and the copy of its tensor there, without
  // data if there is none. Empty if none is copied.
  std::vector<DeviceIndex> devices_;
  std::vector<Tensor> copies_;
  Uploads to_start_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_COPIES_H_

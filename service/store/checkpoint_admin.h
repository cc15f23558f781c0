// The checkpoints of a server, as its callers see them.

#ifndef TENSORKV_SERVICE_STORE_CHECKPOINT_ADMIN_H_
#define TENSORKV_SERVICE_STORE_CHECKPOINT_ADMIN_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Thread-safe. Verbs as in proto/tensorkv/v1/checkpoint.proto; each blocks
// until it is done.
class CheckpointAdmin {
 public:
  virtual ~CheckpointAdmin() = default;

  virtual absl::StatusOr<CheckpointStatus> SaveCheckpoint(
      const SaveCheckpointRequest& request, const CallContext& context) = 0;
  virtual absl::StatusOr<CheckpointStatus> RestoreCheckpoint(
      const RestoreCheckpointRequest& request, const CallContext& context) = 0;
  virtual absl::StatusOr<ListCheckpointsReply> ListCheckpoints(
      const ListCheckpointsRequest& request, const CallContext& context) = 0;
  virtual absl::Status DeleteCheckpoint(const DeleteCheckpointRequest& request,
                                        const CallContext& context) = 0;
  virtual absl::StatusOr<CheckpointStatus> VerifyCheckpoint(
      const VerifyCheckpointRequest& request, const CallContext& context) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CHECKPOINT_ADMIN_H_

// The calls of checkpoint.proto, which explains their fields.

#ifndef TENSORKV_CONTRACT_CHECKPOINT_REQUESTS_H_
#define TENSORKV_CONTRACT_CHECKPOINT_REQUESTS_H_

#include "tensorkv/v1/checkpoint.pb.h"

namespace tensorkv {

using CheckpointStatus = v1::CheckpointStatus;

using SaveCheckpointRequest = v1::SaveCheckpointRequest;
using SaveCheckpointReply = v1::SaveCheckpointResponse;

using RestoreCheckpointRequest = v1::RestoreCheckpointRequest;
using RestoreCheckpointReply = v1::RestoreCheckpointResponse;

using ListCheckpointsRequest = v1::ListCheckpointsRequest;
using ListCheckpointsReply = v1::ListCheckpointsResponse;

using DeleteCheckpointRequest = v1::DeleteCheckpointRequest;
using DeleteCheckpointReply = v1::DeleteCheckpointResponse;

using VerifyCheckpointRequest = v1::VerifyCheckpointRequest;
using VerifyCheckpointReply = v1::VerifyCheckpointResponse;

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_CHECKPOINT_REQUESTS_H_

// The calls of checkpoint.proto, which explains their fields.

#ifndef TENSORKV_CONTRACT_CHECKPOINT_REQUESTS_H_
#define TENSORKV_CONTRACT_CHECKPOINT_REQUESTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "contract/call_fields.h"

namespace tensorkv {

struct CheckpointStatus {
  std::string name;
  absl::Time create_time;
  uint64_t bytes = 0;
  uint64_t num_keys = 0;
  std::vector<std::string> namespaces;
  uint64_t sequence = 0;
  bool automatic = false;
  uint64_t written_bytes = 0;
};

struct SaveCheckpointRequest {
  std::string name;
  std::vector<std::string> namespaces;
};

using SaveCheckpointReply = CheckpointStatus;

struct RestoreCheckpointRequest {
  std::string name;
  std::vector<std::string> namespaces;
  // Empty: the name that was saved.
  std::string as_namespace;
  OnExisting on_existing = OnExisting::kFail;
  // The uid that each of them gets; 0: the server draws one for each.
  uint64_t uid = 0;
};

using RestoreCheckpointReply = CheckpointStatus;

struct ListCheckpointsRequest {
  uint32_t page_size = 0;
  std::string page_token;
};

struct ListCheckpointsReply {
  std::vector<CheckpointStatus> checkpoints;
  std::string next_page_token;
};

struct DeleteCheckpointRequest {
  std::string name;
};

struct DeleteCheckpointReply {};

struct VerifyCheckpointRequest {
  std::string name;
};

using VerifyCheckpointReply = CheckpointStatus;

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_CHECKPOINT_REQUESTS_H_

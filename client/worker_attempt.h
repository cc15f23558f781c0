// What a worker's verbs consist of: attempts, and the calls that each makes.

#ifndef TENSORKV_CLIENT_WORKER_ATTEMPT_H_
#define TENSORKV_CLIENT_WORKER_ATTEMPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/worker_options.h"
#include "contract/requests.h"

namespace tensorkv {

// What a worker has become.
struct JoinedWorker {
  Worker worker;
  uint64_t incarnation = 0;  // of the server that has accepted it
};

// An attempt at a verb.
struct WorkerAttempt {
  absl::Duration end;       // of the verb
  uint64_t recoveries = 0;  // that had begun before the attempt
  JoinedWorker as;
  SharedCanceller canceller;
};

template <typename Entry>
std::vector<std::string> KeysOf(const std::vector<Entry>& entries) {
  std::vector<std::string> keys;
  keys.reserve(entries.size());
  for (const Entry& entry : entries) keys.push_back(entry.key);
  return keys;
}

// Pushes encoded entries to `step` once as `worker`, as tensors or rows,
// whichever they are.
absl::StatusOr<PushReply> PushOnce(Client& client, const Worker& worker,
                                   Step step, std::vector<PushEntry> entries);

// Waits once for the rounds of entries that `worker` has contributed to `step`.
absl::Status AwaitRound(const Worker& worker, Step step,
                        const std::vector<PushEntry>& entries, Client waiter);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_WORKER_ATTEMPT_H_

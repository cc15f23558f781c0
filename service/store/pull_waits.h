// Pulls that wait for a key.

#ifndef TENSORKV_SERVICE_STORE_PULL_WAITS_H_
#define TENSORKV_SERVICE_STORE_PULL_WAITS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/alarms.h"
#include "base/ref_counted.h"
#include "service/store/stored_key.h"
#include "service/store/tensor_store.h"
#include "tensor/requests.h"

namespace tensorkv {

// One Pull from its call to its answer. Guarded by the namespace's mutex.
struct PullCall {
  PullRequest request;
  CallContext context;
  ReplyCallback<PullReply> done;

  absl::Duration started;
  // The first entry that was not ready when last looked at.
  size_t position = 0;
  bool is_finished = false;
  // 0 until the call waits for the first time.
  Alarms::Id alarm = 0;
  // Keys whose num_pulls_pinning counts this call.
  std::vector<RefPtr<StoredKey>> pinned;
};

// Parks each call at one key. Not thread-safe.
class PullWaits {
 public:
  void Park(absl::string_view key, std::shared_ptr<PullCall> call);

  // Removes and returns the calls parked at `key`.
  std::vector<std::shared_ptr<PullCall>> Take(absl::string_view key);

  // Removes and returns all calls.
  std::vector<std::shared_ptr<PullCall>> TakeAll();

  // Removes one call, parked at `key`.
  void Remove(absl::string_view key, const std::shared_ptr<PullCall>& call);

  size_t num_parked() const { return num_parked_; }

 private:
  using Calls = std::vector<std::shared_ptr<PullCall>>;

  absl::flat_hash_map<std::string, Calls> by_key_;
  size_t num_parked_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_PULL_WAITS_H_

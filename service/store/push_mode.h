// When a contribution becomes an update: the difference between the modes of
// a namespace.

#ifndef TENSORKV_SERVICE_STORE_PUSH_MODE_H_
#define TENSORKV_SERVICE_STORE_PUSH_MODE_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/store/rounds.h"
#include "service/store/stored_key.h"
#include "tensor/requests.h"

namespace tensorkv {

// The strategy of one namespace, const after construction; its methods are
// called with the namespace's mutex held.
class PushMode {
 public:
  virtual ~PushMode() = default;

  // The mode that `config` asks for.
  // Errors: InvalidArgument (workers) · Unimplemented (MODE_BOUNDED).
  static absl::StatusOr<std::unique_ptr<PushMode>> Create(
      const NamespaceConfig& config);

  // Sets what the mode ignores, or has a default for.
  virtual void FillDefaults(NamespaceConfig& config) const = 0;

  // Whether the caller may push, or pull as a worker, at all. Errors:
  // InvalidArgument (no worker, no step, rank) · FailedPrecondition (epoch).
  virtual absl::Status CheckPush(const PushRequest& request) const = 0;
  virtual absl::Status CheckPull(const PullRequest& request) const = 0;

  // Whether the caller may contribute to `key` now.
  virtual absl::Status CheckKey(const StoredKey& key,
                                const PushRequest& request) const = 0;

  // Whether the contribution must bring room for a new value.
  virtual bool NeedsRoom(const StoredKey& key,
                         const PushRequest& request) const = 0;

  // Adds the contribution to `key`; returns the update that is ready now, if
  // any. REQUIRES: CheckKey is OK.
  virtual std::optional<PendingUpdate> Admit(StoredKey& key,
                                             const PushRequest& request,
                                             Contribution contribution,
                                             Reservation room) const = 0;

  // What to sum ahead of the end of the round that the contribution joined, if
  // anything; EndFold takes the sum and returns the update that is ready then.
  virtual std::optional<Fold> BeginFold(StoredKey& key,
                                        const PushRequest& request) const = 0;
  virtual std::optional<PendingUpdate> EndFold(
      StoredKey& key, Step step, std::optional<Contribution> sum) const = 0;

  // Whether `worker` must wait before it reads `key`, and for what.
  virtual bool MustWait(const StoredKey& key,
                        const std::optional<Worker>& worker) const = 0;
  virtual std::string DescribeWait(
      const StoredKey& key, const std::optional<Worker>& worker) const = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_PUSH_MODE_H_

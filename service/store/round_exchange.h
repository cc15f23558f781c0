// Has several servers that hold the same keys make the sums of rounds together.

#ifndef TENSORKV_SERVICE_STORE_ROUND_EXCHANGE_H_
#define TENSORKV_SERVICE_STORE_ROUND_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "contract/call_fields.h"
#include "kernels/backend.h"
#include "service/store/byte_budget.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace tensorkv {

// ContributedTensor is what a worker of this server has given to a round: a
// whole, unpacked tensor, which `buffer` keeps.
struct ContributedTensor {
  uint32_t rank = 0;
  DType dtype = DType::kF32;
  const char* data = nullptr;
  RefPtr<Buffer> buffer;
  // What it weighs in a mean.
  double weight = 1;
};

// A round of a key to which all workers of this server have contributed.
struct RoundToSum {
  std::string key;
  Step step = 0;
  // The version that the key has before the round.
  Version version = 0;
  // The round's update makes a version above this.
  Version version_floor = 0;
  DType dtype = DType::kF32;  // the key's
  int64_t num_elements = 0;
  // True if the mean of the tensors is to be made in place of their sum.
  bool is_mean = false;
  // Where the tensors are, and what counts the memory there; null: the host.
  // It lives until the exchange has stopped.
  Backend* device = nullptr;
  RefPtr<BudgetAccount> device_account;
  // In order of ranks, and of each as it came. Empty: all have skipped.
  std::vector<ContributedTensor> tensors;
};

// The sum over all servers, or the mean, in the accumulate type.
struct SumOfRound {
  // Counts the tensors in it; 0: all workers have skipped, and there is no
  // buffer.
  uint32_t num_tensors = 0;
  // Immutable; on the host or the round's device, and counted by the account
  // that was given for that.
  RefPtr<Buffer> buffer;
  bool is_on_device = false;
  // The highest of all servers, so that all make one version of it.
  Version version_floor = 0;
};

// What has become of one of the rounds that were given; `place` is its index
// among them.
struct SummedRound {
  size_t place = 0;
  absl::StatusOr<SumOfRound> sum;
};

// Sums rounds of mirrored namespaces with the other servers of the cluster.
// Thread-safe.
class RoundExchange {
 public:
  virtual ~RoundExchange() = default;

  // Checks that a group of so many workers has some at each server. Errors:
  // InvalidArgument · Unimplemented: there are no other servers.
  virtual absl::Status CheckGroup(uint32_t num_workers) const = 0;

  // Returns whether the worker of that rank pushes to this server.
  virtual bool IsLocal(uint32_t rank) const = 0;

  // Has `rounds` of a namespace summed over all servers, and returns. Memory of
  // the host is reserved from `account`. Calls `summed`, on any thread, one or
  // more times, until it has had each round once, and destroys it then, without
  // waiting for another server. A round that has failed at this server may have
  // its sum at others: once it is given again, with the same step and version,
  // it ends with that sum. Of two rounds of one key at a time, the former ends
  // with Aborted: the key was created again. Errors of rounds: Unavailable and
  // DeadlineExceeded, naming a server that is not there or brings nothing ·
  // FailedPrecondition: servers have different versions of the key ·
  // ResourceExhausted.
  virtual void Sum(const std::string& name_space,
                   const RefPtr<BudgetAccount>& account,
                   std::vector<RoundToSum> rounds,
                   std::function<void(std::vector<SummedRound>)> summed) = 0;

  // Says that the sum of that round is in the key's value, and not needed
  // again. Until then a round that is given again, with the same step and
  // version, has the same sum: the other servers may have gone on with it.
  virtual void Applied(const std::string& name_space, absl::string_view key,
                       Step step) = 0;

  // Says that the key was removed, and what its last version was. Its round
  // ends with Aborted, and nothing is kept of it. Later versions are of another
  // key of its name. REQUIRES: the caller holds no lock that `summed` takes.
  virtual void Remove(const std::string& name_space, const std::string& key,
                      Version version) = 0;

  // Says that the namespace was removed, or its keys replaced. Its rounds end
  // with Aborted; a later namespace of its name has nothing to do with them.
  // REQUIRES: the caller holds no lock that `summed` takes.
  virtual void Forget(const std::string& name_space) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_ROUND_EXCHANGE_H_

// One server's part in an attempt to sum some rounds.

#ifndef TENSORKV_SERVICE_MIRROR_SUM_ATTEMPT_H_
#define TENSORKV_SERVICE_MIRROR_SUM_ATTEMPT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "service/mirror/mirror_group.h"
#include "service/mirror/range_layout.h"
#include "service/mirror/range_transport.h"
#include "service/store/byte_budget.h"
#include "service/store/round_exchange.h"
#include "tensorkv/v1/peer.pb.h"

namespace tensorkv {

// SumAttempt decides which bytes go where: the contributions of this server's
// workers go in ranges to the members that sum them; this one sums its own
// ranges, of all workers in the order of their ranks, and takes the sums of all
// others. Used by one thread at a time; transports read and write memory of its
// own and of the rounds.
class SumAttempt {
 public:
  // A round as this server has it, and as all have announced it.
  struct Round {
    RoundToSum own;
    v1::RoundOfAll of_all;
  };

  // Allocates all that comes: on `device`, where all rounds must be, or, if
  // that is null, on the host, counted by `account`. Errors: ResourceExhausted
  // · InvalidArgument: `of_all` is not what this server has announced ·
  // FailedPrecondition: a round is not on `device`.
  static absl::StatusOr<SumAttempt> Create(MirrorGroupPtr group,
                                           std::vector<Round> rounds,
                                           const RefPtr<BudgetAccount>& account,
                                           Backend* device);

  // Returns whether Gather has to be called before contributions can be sent.
  // Gather waits, without blocking, until what workers have brought is where
  // sums are made: copied to the host, or uploaded to the device. It calls
  // `done` on any thread; `done` must not wait for a device. REQUIRES:
  // has_to_gather; called once.
  bool has_to_gather() const { return gathers_from_ != nullptr; }
  void Gather(PlanCallback done);

  // Return what a RangeTransport is to receive and to send. The memory is this
  // attempt's, or that of the rounds.
  RangesToReceive ContributionsToReceive();
  RangesToReceive SumsToReceive();
  RangesToSend ContributionsToSend() const;
  RangesToSend SumsToSend() const;

  // Makes the sums, or means, of this server's ranges, on the device or else on
  // `host`, and blocks until they are made. REQUIRES: the contributions of all
  // members have come. Errors: those of Backend.
  absl::Status SumOwnRanges(Backend& host) const;

  // Moves the sums out, in the order of the rounds. REQUIRES: the sums of all
  // members' ranges have come. Call it once.
  std::vector<SumOfRound> TakeSums();

 private:
  // A tensor that a worker of the server `member` has brought.
  struct Tensor {
    uint32_t rank = 0;
    uint32_t member = 0;
    DType dtype = DType::kF32;
    double weight = 1;
    // Points to this server's range of it: in what the worker has brought, or
    // in Summing::received.
    const char* range = nullptr;
  };
  // Summing is a round that is being summed.
  struct Summing {
    RoundToSum own;
    // In the order of their ranks.
    std::vector<Tensor> tensors;
    RefPtr<Buffer> received;
    SumOfRound sum;
  };

  SumAttempt(MirrorGroupPtr group, RefPtr<BudgetAccount> account,
             Backend* device)
      : group_(std::move(group)),
        account_(std::move(account)),
        device_(device),
        gathers_from_(device) {}

  // Checks the round, and allocates what comes of it.
  absl::Status Add(Round round);
  // Allocates host memory for the round's tensors, which are on a device, and
  // has Gather copy them there.
  absl::Status PlaceOnHost(RoundToSum& round);
  absl::Status Allocate(Summing& summing, size_t place);
  absl::StatusOr<RefPtr<Buffer>> AllocateForSums(const RoundToSum& round,
                                                 uint64_t bytes) const;
  ElementRange RangeOfMember(size_t place, uint32_t member) const;

  MirrorGroupPtr group_;
  RefPtr<BudgetAccount> account_;
  Backend* device_;
  std::vector<Summing> rounds_;
  // The server's device, if Gather copies from it or waits for its uploads.
  Backend* gathers_from_;
  // The copies that Gather makes, and what keeps their memory.
  std::vector<MemoryCopy> copies_;
  std::vector<RefPtr<Buffer>> copied_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_SUM_ATTEMPT_H_

// Failed rounds that their contributors have not heard of.

#ifndef TENSORKV_SERVICE_STORE_ROUND_FAILURES_H_
#define TENSORKV_SERVICE_STORE_ROUND_FAILURES_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensor/requests.h"

namespace tensorkv {

// By rank. Not thread-safe. Bounded: of many failed rounds of a worker, the
// first few are named and the others counted.
class RoundFailures {
 public:
  // The worker of `rank` is to hear that its contribution was dropped.
  void Add(uint32_t rank, absl::string_view key, Step step,
           absl::string_view reason);

  void Forget(uint32_t rank) { by_rank_.erase(rank); }

  bool Has(uint32_t rank) const { return by_rank_.contains(rank); }

  // Aborted, naming the rounds, if there are some; then they are forgotten.
  absl::Status Take(uint32_t rank);

 private:
  struct Failures {
    std::string text;
    uint64_t count = 0;
  };

  absl::flat_hash_map<uint32_t, Failures> by_rank_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_ROUND_FAILURES_H_

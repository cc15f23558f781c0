// Bounds the memory of what the store can do without.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_RECORD_MEMORY_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_RECORD_MEMORY_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "service/store/byte_budget.h"

namespace tensorkv {

// Counts bytes for as long as it is there, at an account and among all that a
// RecordMemory has given. Move-only.
class CountedBytes {
 public:
  struct Total : RefCounted {
    std::atomic<uint64_t> bytes = 0;
  };

  CountedBytes() = default;
  CountedBytes(RefPtr<Total> total, Reservation reservation)
      : total_(std::move(total)),
        account_(reservation.account()),
        reservation_(std::move(reservation)) {
    total_->bytes += reservation_.bytes();
  }
  CountedBytes(CountedBytes&&) = default;
  CountedBytes& operator=(CountedBytes&&) = delete;
  ~CountedBytes() {
    if (total_) total_->bytes -= reservation_.bytes();
  }

  // Takes over the bytes of `other`, which are of the same RecordMemory.
  void Merge(CountedBytes other) {
    total_ = std::exchange(other.total_, nullptr);
    account_ = other.account_;
    reservation_.Merge(std::move(other.reservation_));
  }

 private:
  RefPtr<Total> total_;
  RefPtr<BudgetAccount> account_;
  Reservation reservation_;  // goes before the account
};

// Gives memory for what can be done without: up to a bound, and a sixteenth of
// what the account has left with what was given. What it gives may outlive it.
// Not thread-safe.
class RecordMemory {
 public:
  RecordMemory(RefPtr<BudgetAccount> account, uint64_t max_bytes)
      : account_(std::move(account)), max_bytes_(max_bytes) {}

  uint64_t used_bytes() const { return total_->bytes; }

  // Returns nothing if there is no memory for that.
  std::optional<CountedBytes> Reserve(uint64_t bytes) {
    constexpr uint64_t kPart = 16;
    const uint64_t used = used_bytes();
    const uint64_t most = std::min(
        max_bytes_, SumOfBytes(account_->available_bytes(), used) / kPart);
    if (used + bytes > most) return std::nullopt;
    absl::StatusOr<Reservation> reservation =
        Reservation::Create(account_, bytes);
    if (!reservation.ok()) return std::nullopt;
    return CountedBytes(total_, *std::move(reservation));
  }

 private:
  const RefPtr<BudgetAccount> account_;
  const uint64_t max_bytes_;
  const RefPtr<CountedBytes::Total> total_ =
      MakeRefCounted<CountedBytes::Total>();
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_RECORD_MEMORY_H_

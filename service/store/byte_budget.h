// Bounds on memory: bytes are reserved before they are allocated.

#ifndef TENSORKV_SERVICE_STORE_BYTE_BUDGET_H_
#define TENSORKV_SERVICE_STORE_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "tensor/buffer.h"

namespace tensorkv {

// Returns the sum, or UINT64_MAX if it is more: declared sizes may be anything.
inline uint64_t SumOfBytes(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

// A number of bytes that may be in use at once, possibly as a part of a larger
// budget. Thread-safe and lock-free.
class ByteBudget final : public RefCounted {
 public:
  // `subject` names the budget in errors: `namespace "default"`. Whatever is
  // reserved here is reserved at `parent` too, unless that is null.
  ByteBudget(std::string subject, uint64_t limit_bytes,
             RefPtr<ByteBudget> parent = nullptr)
      : subject_(std::move(subject)),
        limit_bytes_(limit_bytes),
        parent_(std::move(parent)) {}

  // Errors: ResourceExhausted, naming the budget that would be passed; then
  // nothing is reserved anywhere. This budget comes before its parent, so that
  // what it refuses never shows there.
  absl::Status Reserve(uint64_t bytes);
  // REQUIRES: `bytes` were reserved.
  void Release(uint64_t bytes);
  // Returns what Reserve would return now, but reserves nothing.
  absl::Status CheckHeadroom(uint64_t bytes) const;

  // Returns how many bytes could be reserved now, here and at all parents.
  uint64_t available_bytes() const;

  uint64_t limit_bytes() const {
    return limit_bytes_.load(std::memory_order_relaxed);
  }
  // Changes the limit. Where more is in use, nothing is lost, and nothing more
  // can be reserved before less is.
  void SetLimit(uint64_t bytes) {
    limit_bytes_.store(bytes, std::memory_order_relaxed);
  }
  uint64_t used_bytes() const {
    return used_bytes_.load(std::memory_order_relaxed);
  }

 private:
  // Reserves bytes here, and not at the parent.
  absl::Status ReserveHere(uint64_t bytes);
  absl::Status CheckFits(uint64_t used, uint64_t bytes) const;

  const std::string subject_;
  std::atomic<uint64_t> limit_bytes_;
  const RefPtr<ByteBudget> parent_;
  std::atomic<uint64_t> used_bytes_{0};
};

// BudgetAccount counts what one use (values, state, contributions) takes of a
// budget. Thread-safe.
class BudgetAccount final : public MemoryAccount {
 public:
  explicit BudgetAccount(RefPtr<ByteBudget> budget)
      : budget_(std::move(budget)) {}

  // Errors: those of ByteBudget::Reserve.
  absl::Status Reserve(uint64_t bytes);
  void Release(int64_t bytes) override;
  // Moves `bytes` from the count of `other` to that of this account. Needs no
  // headroom. REQUIRES: both are accounts of one budget.
  void TakeOver(BudgetAccount& other, uint64_t bytes);
  uint64_t available_bytes() const { return budget_->available_bytes(); }

  uint64_t used_bytes() const {
    return used_bytes_.load(std::memory_order_relaxed);
  }

 private:
  const RefPtr<ByteBudget> budget_;
  std::atomic<uint64_t> used_bytes_{0};
};

// Bytes reserved from an account, which must outlive it, until the object goes.
// Move-only; not thread-safe. Moving, splitting and merging cost next to
// nothing. It keeps no reference to the account: whoever may outlive the owner
// of the account needs a LastingReservation.
class Reservation {
 public:
  // Errors: those of BudgetAccount::Reserve.
  static absl::StatusOr<Reservation> Create(
      const RefPtr<BudgetAccount>& account, uint64_t bytes);

  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : account_(other.account_), bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Reservation() { Clear(); }

  uint64_t bytes() const { return bytes_; }
  RefPtr<BudgetAccount> account() const {
    return RefPtr<BudgetAccount>(account_);
  }

  // Moves `bytes` of this reservation into one of its own.
  // REQUIRES: they are there.
  Reservation Split(uint64_t bytes) {
    bytes_ -= bytes;
    return Reservation(account_, bytes);
  }
  // Takes over the bytes of `other`.
  // REQUIRES: it is of the same account, or one of the two is empty.
  void Merge(Reservation other) {
    if (other.bytes_ == 0) return;
    account_ = other.account_;
    bytes_ += std::exchange(other.bytes_, 0);
  }
  // Gives the bytes up without releasing them, and returns their account:
  // whoever has taken them over, such as a buffer that was allocated with the
  // account, releases them.
  RefPtr<BudgetAccount> HandOver() {
    bytes_ = 0;
    return RefPtr<BudgetAccount>(account_);
  }
  // Releases the bytes now.
  void Clear() {
    if (bytes_ != 0) account_->Release(static_cast<int64_t>(bytes_));
    bytes_ = 0;
  }

 private:
  Reservation(BudgetAccount* account, uint64_t bytes)
      : account_(account), bytes_(bytes) {}

  BudgetAccount* account_ = nullptr;
  uint64_t bytes_ = 0;
};

// A reservation that keeps its account alive: for what is shared, so that
// nobody knows who has it last. Immutable.
class LastingReservation {
 public:
  explicit LastingReservation(Reservation reservation)
      : account_(reservation.account()), reservation_(std::move(reservation)) {}

  uint64_t bytes() const { return reservation_.bytes(); }

 private:
  const RefPtr<BudgetAccount> account_;
  const Reservation reservation_;  // goes before
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_BYTE_BUDGET_H_

#include "service/store/byte_budget.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv {

absl::Status ByteBudget::Reserve(uint64_t bytes) {
  RETURN_IF_ERROR(ReserveHere(bytes));
  if (!parent_) return absl::OkStatus();
  absl::Status status = parent_->Reserve(bytes);
  if (!status.ok()) used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return status;
}

absl::Status ByteBudget::ReserveHere(uint64_t bytes) {
  uint64_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_bytes_ || used > limit_bytes_ - bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(subject_, ": expected at most ", limit_bytes_,
                       " bytes in use, got ", used, " and ", bytes, " more"));
    }
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes,
                                              std::memory_order_relaxed));
  return absl::OkStatus();
}

void ByteBudget::Release(uint64_t bytes) {
  used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (parent_) parent_->Release(bytes);
}

absl::Status BudgetAccount::Reserve(uint64_t bytes) {
  RETURN_IF_ERROR(budget_->Reserve(bytes));
  used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

void BudgetAccount::Release(int64_t bytes) {
  used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  budget_->Release(bytes);
}

absl::StatusOr<Reservation> Reservation::Create(RefPtr<BudgetAccount> account,
                                                uint64_t bytes) {
  RETURN_IF_ERROR(account->Reserve(bytes));
  return Reservation(std::move(account), bytes);
}

Reservation Reservation::Split(uint64_t bytes) {
  bytes_ -= bytes;
  return Reservation(account_, bytes);
}

void Reservation::Merge(Reservation other) {
  if (!account_) account_ = other.account_;
  bytes_ += std::exchange(other.bytes_, 0);
}

RefPtr<BudgetAccount> Reservation::HandOver() {
  bytes_ = 0;
  return std::move(account_);
}

void Reservation::Clear() {
  if (bytes_ != 0) account_->Release(static_cast<int64_t>(bytes_));
  bytes_ = 0;
}

}  // namespace tensorkv

#include "service/store/byte_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"

namespace tensorkv {

absl::Status ByteBudget::Reserve(uint64_t bytes) {
  RETURN_IF_ERROR(ReserveHere(bytes));
  if (!parent_) return absl::OkStatus();
  absl::Status status = parent_->Reserve(bytes);
  if (!status.ok()) used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return status;
}

absl::Status ByteBudget::CheckHeadroom(uint64_t bytes) const {
  RETURN_IF_ERROR(CheckFits(used_bytes(), bytes));
  return parent_ ? parent_->CheckHeadroom(bytes) : absl::OkStatus();
}

uint64_t ByteBudget::available_bytes() const {
  const uint64_t limit = limit_bytes();
  const uint64_t available = limit - std::min(used_bytes(), limit);
  return parent_ ? std::min(available, parent_->available_bytes()) : available;
}

absl::Status ByteBudget::CheckFits(uint64_t used, uint64_t bytes) const {
  const uint64_t limit = limit_bytes();
  if (bytes <= limit && used <= limit - bytes) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(subject_, ": expected at most ",
                                                limit, " bytes in use, got ",
                                                used, " and ", bytes, " more")),
      Reason::kOverBudget,
      {{"needed", bytes}, {"available", limit - std::min(used, limit)}});
}

absl::Status ByteBudget::ReserveHere(uint64_t bytes) {
  uint64_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    RETURN_IF_ERROR(CheckFits(used, bytes));
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

void BudgetAccount::TakeOver(BudgetAccount& other, uint64_t bytes) {
  used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  other.used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

absl::StatusOr<Reservation> Reservation::Create(
    const RefPtr<BudgetAccount>& account, uint64_t bytes) {
  RETURN_IF_ERROR(account->Reserve(bytes));
  return Reservation(account.get(), bytes);
}

}  // namespace tensorkv

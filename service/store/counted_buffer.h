// Allocates memory that a budget has counted.

#ifndef TENSORKV_SERVICE_STORE_COUNTED_BUFFER_H_
#define TENSORKV_SERVICE_STORE_COUNTED_BUFFER_H_

#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/ref_counted.h"
#include "base/status_macros.h"
#include "kernels/backend.h"
#include "service/store/byte_budget.h"
#include "tensor/buffer.h"

namespace tensorkv {

// Allocates a buffer of `bytes` that releases them from `account` when it goes.
// Does not reserve them.
using AllocateBuffer = absl::FunctionRef<absl::StatusOr<RefPtr<Buffer>>(
    uint64_t bytes, RefPtr<MemoryAccount> account)>;

// Allocates a buffer of the bytes of `reservation`, which becomes the buffer's.
// Errors: those of `allocate`; then they are not reserved any more.
inline absl::StatusOr<RefPtr<Buffer>> AllocateReserved(
    Reservation reservation, AllocateBuffer allocate) {
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                   allocate(reservation.bytes(), reservation.account()));
  reservation.HandOver();
  return buffer;
}
inline absl::StatusOr<RefPtr<Buffer>> AllocateReserved(Reservation reservation,
                                                       Backend& device) {
  return AllocateReserved(std::move(reservation),
                          [&](uint64_t bytes, RefPtr<MemoryAccount> account) {
                            return device.Allocate(bytes, std::move(account));
                          });
}

// Reserves `bytes` from `account`, then allocates a buffer of them, which
// releases them when it goes. Errors: ResourceExhausted · those of `allocate`.
inline absl::StatusOr<RefPtr<Buffer>> AllocateCounted(
    const RefPtr<BudgetAccount>& account, uint64_t bytes,
    AllocateBuffer allocate) {
  ASSIGN_OR_RETURN(Reservation reservation,
                   Reservation::Create(account, bytes));
  return AllocateReserved(std::move(reservation), allocate);
}
inline absl::StatusOr<RefPtr<Buffer>> AllocateCounted(
    const RefPtr<BudgetAccount>& account, uint64_t bytes, Backend& device) {
  ASSIGN_OR_RETURN(Reservation reservation,
                   Reservation::Create(account, bytes));
  return AllocateReserved(std::move(reservation), device);
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_COUNTED_BUFFER_H_

// Bounds how much callers have under way.

#ifndef TENSORKV_SERVICE_SECURITY_CALLER_QUOTAS_H_
#define TENSORKV_SERVICE_SECURITY_CALLER_QUOTAS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "service/security/policy.h"

namespace tensorkv {

// The time after which a caller that was refused for its quota is to try again.
inline constexpr absl::Duration kQuotaRetryDelay = absl::Milliseconds(100);

// Counts what each caller with a quota has under way. Thread-safe. Outlives its
// shares.
class CallerQuotas {
 public:
  // Share is what one call has taken of its caller's quota, until Release or
  // its destruction; an empty share is of a caller without a quota. Used by one
  // thread at a time, but for Release, which several may call at once.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept;
    ~Share() { Release(); }

    bool is_empty() const { return quotas_ == nullptr; }
    // Takes so many bytes more of the quota; an empty share takes none. Errors:
    // those of TakeShare.
    absl::Status Add(uint64_t bytes);
    // Gives back all that was taken. Later calls do nothing.
    void Release();

   private:
    friend class CallerQuotas;

    std::atomic<CallerQuotas*> quotas_{nullptr};
    std::string caller_;
    CallerLoad quota_;
    CallerLoad load_;
  };

  // Takes `load` from what `quota` leaves `caller`, without waiting.
  // Errors: ResourceExhausted (LIMIT_REACHED, and when to try again, unless
  // `load` is more than the whole quota).
  absl::StatusOr<Share> TakeShare(std::string caller, const CallerLoad& quota,
                                  const CallerLoad& load);

 private:
  absl::Status Add(const std::string& caller, const CallerLoad& quota,
                   const CallerLoad& more);
  void Remove(const std::string& caller, const CallerLoad& load);

  Mutex mutex_;
  // Has only callers who have something under way.
  absl::flat_hash_map<std::string, CallerLoad> loads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_CALLER_QUOTAS_H_

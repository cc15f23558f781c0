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

// When a caller who was refused for its quota is to try again.
inline constexpr absl::Duration kQuotaRetryDelay = absl::Milliseconds(100);

// Counts what each caller has under way, of those who have a quota.
// Thread-safe. Outlives its shares.
class CallerQuotas {
 public:
  // Share is what one call takes of its caller's quota until it is released;
  // nothing if it is empty. Used by one thread at a time, but for Release,
  // which several may call at once.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept;
    ~Share() { Release(); }

    bool is_empty() const { return quotas_ == nullptr; }
    // Takes so many bytes more. Errors: as of Take.
    absl::Status Add(uint64_t bytes);
    void Release();

   private:
    friend class CallerQuotas;

    std::atomic<CallerQuotas*> quotas_{nullptr};
    std::string caller_;
    CallerLoad quota_;
    CallerLoad load_;
  };

  // Takes `load`, a call or a stream, of the quota of `caller`.
  // Errors: ResourceExhausted (LIMIT_REACHED, and when to try again unless it
  // can never be taken).
  absl::StatusOr<Share> Take(std::string caller, const CallerLoad& quota,
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

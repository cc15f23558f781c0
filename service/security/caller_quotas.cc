#include "service/security/caller_quotas.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "contract/retry_delay.h"

namespace tensorkv {
namespace {

absl::Status CheckQuota(absl::string_view what, uint64_t limit, uint64_t used,
                        uint64_t more) {
  // More than the limit may be under way: it was another when that began.
  const uint64_t left = limit - std::min(limit, used);
  if (limit == 0 || more <= left) return absl::OkStatus();
  const absl::Status status =
      WithReason(absl::ResourceExhaustedError(absl::StrCat(
                     "quota of the caller: expected at most ", limit, " ", what,
                     " under way, got ", more, " more beside ", used)),
                 Reason::kLimitReached, {{"limit", limit}});
  return more <= limit ? WithRetryDelay(status, kQuotaRetryDelay) : status;
}

}  // namespace

CallerQuotas::Share& CallerQuotas::Share::operator=(Share&& other) noexcept {
  if (this == &other) return *this;
  Release();
  caller_ = std::move(other.caller_);
  quota_ = other.quota_;
  load_ = other.load_;
  quotas_ = other.quotas_.exchange(nullptr);
  return *this;
}

absl::Status CallerQuotas::Share::Add(uint64_t bytes) {
  CallerQuotas* const quotas = quotas_;
  if (quotas == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(quotas->Add(caller_, quota_, {.bytes = bytes}));
  load_.bytes += bytes;
  return absl::OkStatus();
}

void CallerQuotas::Share::Release() {
  CallerQuotas* const quotas = quotas_.exchange(nullptr);
  if (quotas != nullptr) quotas->Remove(caller_, load_);
}

absl::StatusOr<CallerQuotas::Share> CallerQuotas::TakeShare(
    std::string caller, const CallerLoad& quota, const CallerLoad& load) {
  RETURN_IF_ERROR(Add(caller, quota, load));
  Share share;
  share.caller_ = std::move(caller);
  share.quota_ = quota;
  share.load_ = load;
  share.quotas_ = this;
  return share;
}

absl::Status CallerQuotas::Add(const std::string& caller,
                               const CallerLoad& quota,
                               const CallerLoad& more) {
  MutexLock lock(&mutex_);
  const auto found = loads_.find(caller);
  CallerLoad load = found == loads_.end() ? CallerLoad() : found->second;
  RETURN_IF_ERROR(CheckQuota("calls", quota.calls, load.calls, more.calls));
  RETURN_IF_ERROR(
      CheckQuota("streams", quota.streams, load.streams, more.streams));
  RETURN_IF_ERROR(CheckQuota("bytes", quota.bytes, load.bytes, more.bytes));
  load.calls += more.calls;
  load.streams += more.streams;
  load.bytes += more.bytes;
  loads_[caller] = load;
  return absl::OkStatus();
}

void CallerQuotas::Remove(const std::string& caller, const CallerLoad& load) {
  MutexLock lock(&mutex_);
  const auto found = loads_.find(caller);
  found->second.calls -= load.calls;
  found->second.streams -= load.streams;
  found->second.bytes -= load.bytes;
  if (found->second == CallerLoad()) loads_.erase(found);
}

}  // namespace tensorkv

#include "client/internal/worker/worker_errors.h"

#include "contract/reason.h"

namespace tensorkv {

bool IsNoMember(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return reason == Reason::kNotMember || reason == Reason::kLeaseLost;
}

bool MayMeanRestart(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return reason == Reason::kServerRestarted ||
         reason == Reason::kOutcomeUnknown;
}

bool IsAnotherNamespace(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return reason == Reason::kNamespaceNotFound ||
         reason == Reason::kNamespaceReplaced;
}

bool NeedsToJoin(const absl::Status& status) {
  return IsNoMember(status) || MayMeanRestart(status);
}

bool IsObsolete(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return reason == Reason::kStepClosed || reason == Reason::kKeyNotFound ||
         reason == Reason::kKeyReplaced;
}

bool IsUncertain(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         ReasonOf(status) == Reason::kOutcomeUnknown;
}

}  // namespace tensorkv

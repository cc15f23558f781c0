// The choices of a namespace as the command line spells them.

#ifndef TENSORKV_CLIENT_CLI_CHOICE_NAMES_H_
#define TENSORKV_CLIENT_CLI_CHOICE_NAMES_H_

#include "absl/strings/string_view.h"
#include "contract/requests.h"

namespace tensorkv {

inline absl::string_view NameOf(Mode mode) {
  switch (mode) {
    case Mode::kSync:
      return "sync";
    case Mode::kBounded:
      return "bounded";
    case Mode::kUnknown:
      return "unknown";
    case Mode::kAsync:
      break;
  }
  return "async";
}

inline absl::string_view NameOf(OnWorkerLoss on_worker_loss) {
  switch (on_worker_loss) {
    case OnWorkerLoss::kContinue:
      return "continue";
    case OnWorkerLoss::kUnknown:
      return "unknown";
    case OnWorkerLoss::kFail:
      break;
  }
  return "fail";
}

inline absl::string_view NameOf(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::kMedian:
      return "median";
    case Aggregation::kTrimmedMean:
      return "trimmed_mean";
    case Aggregation::kUnknown:
      return "unknown";
    case Aggregation::kSum:
      break;
  }
  return "sum";
}

inline absl::string_view NameOf(OnNonFinite on_non_finite) {
  switch (on_non_finite) {
    case OnNonFinite::kCount:
      return "count";
    case OnNonFinite::kSkip:
      return "skip";
    case OnNonFinite::kRefuse:
      return "refuse";
    case OnNonFinite::kUnknown:
      return "unknown";
    case OnNonFinite::kApply:
      break;
  }
  return "apply";
}

inline absl::string_view NameOf(OnLargeNorm on_large_norm) {
  switch (on_large_norm) {
    case OnLargeNorm::kRefuse:
      return "refuse";
    case OnLargeNorm::kUnknown:
      return "unknown";
    case OnLargeNorm::kClip:
      break;
  }
  return "clip";
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_CHOICE_NAMES_H_

#include "client/cluster/share_outcomes.h"

#include <algorithm>
#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "xxhash.h"

namespace tensorkv {
namespace {

// No server gives it.
constexpr char kWithoutEffect[] = "tensorkv.client.WithoutEffect";

}  // namespace

absl::Status WithoutEffect(absl::Status status) {
  status.SetPayload(kWithoutEffect, absl::Cord());
  return status;
}

bool HadNoEffect(const absl::Status& status) {
  return status.GetPayload(kWithoutEffect).has_value();
}

void ClearEffectMark(absl::Status& status) {
  status.ErasePayload(kWithoutEffect);
}

CallId DerivedCallId(const CallId& id, absl::string_view marker) {
  CallId derived = id;
  derived.client_id = absl::StrCat(marker, id.client_id);
  if (derived.client_id.size() <= kMaxClientIdBytes) return derived;
  const XXH128_hash_t digest =
      XXH3_128bits(id.client_id.data(), id.client_id.size());
  derived.client_id =
      absl::StrCat(marker, absl::Hex(digest.high64, absl::kZeroPad16),
                   absl::Hex(digest.low64, absl::kZeroPad16));
  return derived;
}

bool IsAtWrongServer(const absl::Status& status) {
  return ReasonOf(status) == Reason::kWrongServer;
}

bool IsOfFormerNamespace(const absl::Status& status) {
  return ReasonOf(status) == Reason::kNamespaceReplaced;
}

bool IsOfNoSnapshot(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return reason == Reason::kSnapshotNotFound || reason == Reason::kSnapshotLost;
}

uint64_t VersionToldBy(absl::Span<const absl::Status> outcomes) {
  uint64_t newest = 0;
  for (const absl::Status& status : outcomes) {
    if (!IsAtWrongServer(status)) continue;
    std::optional<ErrorInfo> info = ErrorInfoOf(status);
    uint64_t version = 0;
    if (absl::SimpleAtoi(info->metadata["placement_version"], &version)) {
      newest = std::max(newest, version);
    }
  }
  return newest;
}

bool MayHaveEffect(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    // A call that ends with these may have had a reply that nobody understands.
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return true;
    default:
      return ReasonOf(status) == Reason::kOutcomeUnknown;
  }
}

bool IsOfDelta(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return reason == Reason::kBaseChanged || reason == Reason::kDeltaMalformed;
}

bool IsPushedAgain(const absl::Status& status) {
  switch (ReasonOf(status)) {
    case Reason::kServerRestarted:
    case Reason::kNotMember:
    case Reason::kLeaseLost:
    case Reason::kRoundFailed:
    case Reason::kStepClosed:
    case Reason::kStripeFailed:
      return true;
    default:
      return false;
  }
}

bool EndsTheCall(const absl::Status& status) {
  switch (ReasonOf(status)) {
    case Reason::kServerRestarted:
    case Reason::kNotMember:
    case Reason::kLeaseLost:
    case Reason::kWorkerLeft:
      return true;
    default:
      return false;
  }
}

bool MayBeAsync(Mode mode) {
  return mode == Mode::kAsync || mode == Mode::kUnknown;
}

}  // namespace tensorkv

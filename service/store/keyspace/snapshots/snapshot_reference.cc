#include "service/store/keyspace/snapshots/snapshot_reference.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

absl::string_view NameOf(Series::Cause cause) {
  switch (cause) {
    case Series::Cause::kRetained:
      return "retained";
    case Series::Cause::kExpired:
      return "expired";
    case Series::Cause::kKeepLast:
      return "keep_last";
    case Series::Cause::kShareLost:
      return "share_lost";
    default:
      return "deleted";
  }
}

std::string SubjectOf(absl::string_view series, uint64_t number) {
  return absl::StrCat("snapshot ", number, " of series ", Quoted(series));
}

// Returns the latest of the series; the error says why it is not there.
absl::StatusOr<NamedSnapshot*> FindLatest(Series& series) {
  if (NamedSnapshot* const latest = series.Find(series.latest)) return latest;
  return NoSuchSnapshot(series, series.latest);
}

// Returns whether all parts of that number have come: it will be there.
bool IsComplete(const NamedSnapshots& named,
                const SnapshotReference& reference) {
  if (reference.uid() != 0) return false;
  const SnapshotParts* const parts =
      named.FindParts(reference.series(), reference.number());
  return parts != nullptr && parts->num_missing() == 0;
}

}  // namespace

absl::Status CheckIsHome(const NamespaceState& state) {
  const auto fence = state.Fence();
  return fence == nullptr ? absl::OkStatus() : fence->CheckRead(state.name, "");
}

absl::Status CheckGivesNumbers(const NamespaceState& state) {
  const auto fence = state.Fence();
  return fence == nullptr ? absl::OkStatus()
                          : fence->CheckChange(state.name, "");
}

absl::Status NoSuchSeries(absl::string_view series) {
  return WithReason(absl::NotFoundError(absl::StrCat("series ", Quoted(series),
                                                     " has no snapshot")),
                    Reason::kSnapshotNotFound,
                    {{"series", series}, {"latest", 0}});
}

absl::Status NoSuchSnapshot(const Series& series, uint64_t number,
                            uint64_t uid) {
  const auto lost = std::find_if(
      series.lost.rbegin(), series.lost.rend(), [&](const Series::Lost& each) {
        return uid != 0 ? each.uid == uid
                        : each.number == number && !each.is_share;
      });
  if (lost != series.lost.rend()) {
    return WithReason(
        absl::NotFoundError(absl::StrCat(SubjectOf(series.name, number),
                                         " was let go: ", NameOf(lost->cause))),
        Reason::kSnapshotLost,
        {{"series", series.name},
         {"number", number},
         {"latest", series.latest},
         {"cause", NameOf(lost->cause)}});
  }
  return WithReason(
      absl::NotFoundError(absl::StrCat(SubjectOf(series.name, number),
                                       " is not there; the latest is ",
                                       series.latest)),
      Reason::kSnapshotNotFound,
      {{"series", series.name}, {"number", number}, {"latest", series.latest}});
}

absl::StatusOr<NamedSnapshot*> FindSnapshot(
    const NamespaceState& state, const SnapshotReference& reference) {
  if (reference.uid() == 0) RETURN_IF_ERROR(CheckIsHome(state));
  Series* const series = state.named->Find(reference.series());
  if (reference.selector_case() == SnapshotReference::kAtLeast) {
    if (series == nullptr || series->latest == 0 ||
        series->latest < reference.at_least()) {
      return nullptr;
    }
    return FindLatest(*series);
  }
  if (series == nullptr) return NoSuchSeries(reference.series());
  if (reference.selector_case() == SnapshotReference::kLatest) {
    return series->latest == 0 ? NoSuchSeries(series->name)
                               : FindLatest(*series);
  }
  NamedSnapshot* const found = reference.uid() == 0
                                   ? series->Find(reference.number())
                                   : state.named->FindUid(reference.uid());
  if (found == nullptr && IsComplete(*state.named, reference)) return nullptr;
  const bool is_part = found != nullptr && found->is_share && found->parts;
  if (found == nullptr || found->series != series || is_part) {
    return NoSuchSnapshot(*series, reference.number(), reference.uid());
  }
  return found->is_ready ? found : nullptr;
}

absl::Status MissingSnapshot(const NamespaceState& state,
                             const SnapshotReference& reference) {
  const bool is_exact = reference.selector_case() == SnapshotReference::kNumber;
  const uint64_t number = is_exact ? reference.number() : reference.at_least();
  const Series* const series = state.named->Find(reference.series());
  return WithReason(
      absl::DeadlineExceededError(absl::StrCat(
          "series ", Quoted(reference.series()), ": expected ",
          is_exact ? "snapshot " : "a snapshot of at least ", number,
          is_exact ? " to be complete" : "", "; the latest is ",
          series == nullptr ? 0 : series->latest)),
      Reason::kWaitEnded, {{"series", reference.series()}, {"number", number}});
}

}  // namespace tensorkv

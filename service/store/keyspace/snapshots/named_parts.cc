// Snapshots that are made of parts, each of which is one of its own.

#include <algorithm>
#include <memory>
#include <utility>

#include "service/store/keyspace/snapshots/named_snapshots.h"
#include "service/store/keyspace/snapshots/snapshot_parts.h"

namespace tensorkv {

SnapshotParts* NamedSnapshots::FindParts(absl::string_view series,
                                         uint64_t number) const {
  const Series* const found = Find(series);
  if (found == nullptr || number < found->last_ready) return nullptr;
  const auto it = found->incomplete.find(number);
  return it == found->incomplete.end() ? nullptr : it->second.get();
}

NamedSnapshot& NamedSnapshots::OpenPart(SnapshotTerms terms, uint64_t revision,
                                        absl::Duration now) {
  Series& series = SeriesOf(terms);
  const uint64_t number = *terms.number;
  std::shared_ptr<SnapshotParts>& parts = series.incomplete[number];
  if (parts == nullptr) {
    parts = std::make_shared<SnapshotParts>(terms,
                                            now + SnapshotParts::WaitOf(terms));
    // It may be below others that wait, if these here have gone since Check.
    reserved_.Reserve(terms.uid, {.series = &series,
                                  .number = number,
                                  .is_asked_for = true,
                                  .end = absl::InfiniteDuration()});
  }
  const uint32_t index = terms.part_index;
  NamedSnapshot& part = Open(std::move(terms), revision, now);
  part.parts = parts;
  parts->Add(index, part);
  SetEnd(part, parts->end());
  return part;
}

bool NamedSnapshots::NameWhole(SnapshotParts& parts, NamedSnapshot& last,
                               absl::Duration now) {
  Series& series = *last.series;
  const uint64_t number = parts.number();
  if (number < series.last_ready || series.Find(number) != nullptr) {
    return false;
  }
  for (const auto& [index, part] : parts.parts()) {
    if (part != &last) SetEnd(*part, absl::InfiniteDuration());
  }
  parts.SetHead(last);
  --num_parts_;
  reserved_.End(parts.uid());
  SnapshotTerms terms = parts.TermsOfWhole();
  const uint64_t bytes = BytesOf(terms.metadata, /*servers=*/{});
  // The parts have it.
  series.incomplete.erase(number);
  Name(last, number, std::move(terms), bytes, now);
  return true;
}

void NamedSnapshots::EndParts(Series& series, const SnapshotParts& parts) {
  series.incomplete.erase(parts.number());
  reserved_.GiveBack(parts.uid());
}

std::vector<NamedSnapshot*> NamedSnapshots::TakeParts(NamedSnapshot& snapshot,
                                                      Cause cause) {
  // Stays until all of it are known.
  const std::shared_ptr<SnapshotParts> parts = snapshot.parts;
  const bool is_whole = parts->head() != nullptr;
  const bool goes_alone =
      cause == Cause::kAbandoned || cause == Cause::kReplaced;
  if (!goes_alone || is_whole) {
    std::vector<NamedSnapshot*> all = parts->RemoveAll();
    if (!is_whole) EndParts(*snapshot.series, *parts);
    return all;
  }
  parts->Remove(snapshot);
  if (parts->parts().empty() && cause == Cause::kAbandoned) {
    EndParts(*snapshot.series, *parts);
  }
  return {&snapshot};
}

bool NamedSnapshots::IsLeased(const NamedSnapshot& snapshot) {
  const NamedSnapshot* const head =
      snapshot.parts == nullptr ? nullptr : snapshot.parts->head();
  return !(head == nullptr ? snapshot : *head).leases.empty();
}

void NamedSnapshots::ReorderOthers(const NamedSnapshot& head) {
  if (head.parts == nullptr) return;
  const bool is_leased = !head.leases.empty();
  for (const auto& [index, part] : head.parts->parts()) {
    if (part == &head) continue;
    auto& by_lease = candidates_[part->held.empty()];
    by_lease[!is_leased].erase(part->revision);
    by_lease[is_leased].emplace(part->revision, part);
  }
}

uint64_t NamedSnapshots::LastWhole(const Series& series) const {
  if (series.incomplete.empty()) return series.last_number;
  uint64_t last = series.last_taken;
  if (!series.snapshots.empty()) {
    last = std::max(last, series.snapshots.rbegin()->first);
  }
  for (const auto& [number, parts] : series.incomplete) {
    if (parts->num_missing() == 0) last = std::max(last, number);
  }
  return last;
}

}  // namespace tensorkv

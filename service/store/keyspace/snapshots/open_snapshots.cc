#include "service/store/keyspace/snapshots/open_snapshots.h"

#include <algorithm>
#include <utility>

#include "service/store/looks.h"

namespace tensorkv {
namespace {

// Says how many snapshots are asked for a key before one is taken to lack it.
constexpr int kMostAsked = 4;

}  // namespace

void OpenSnapshots::Open(OpenSnapshot* snapshot, uint64_t revision) {
  snapshot->revision = revision;
  snapshot->next_former = next_former_;
  open_.push_back(snapshot);
  SetRevisions();
}

void OpenSnapshots::SetRevisions() {
  revisions_ = {};
  if (open_.empty()) return;
  revisions_ = {open_.front()->revision, open_.back()->revision};
}

OpenSnapshots::FormerKeys OpenSnapshots::FailAll(const absl::Status& status) {
  for (OpenSnapshot* const each : open_) each->failure = status;
  open_.clear();
  SetRevisions();
  return std::exchange(former_, {});
}

bool OpenSnapshots::Close(OpenSnapshot* snapshot, size_t max_keys,
                          std::vector<KeptKeyPtr>& dropped) {
  snapshot->is_walked = true;
  if (!snapshot->failure.ok()) return true;
  for (size_t i = 0; i < max_keys && !HasTakenAll(*snapshot); ++i) {
    dropped.push_back(TakeNext(*snapshot));
  }
  if (!HasTakenAll(*snapshot)) return false;
  open_.erase(std::find(FirstFrom(snapshot->revision), open_.cend(), snapshot));
  SetRevisions();
  return true;
}

OpenSnapshots::Opened::const_iterator OpenSnapshots::FirstFrom(
    uint64_t revision) const {
  return std::lower_bound(open_.begin(), open_.end(), revision,
                          [](const OpenSnapshot* each, uint64_t revision) {
                            CountLook();
                            return each->revision < revision;
                          });
}

bool OpenSnapshots::MayLack(absl::string_view name, uint64_t since,
                            uint64_t until) const {
  int num_asked = 0;
  for (auto it = FirstFrom(since); it != open_.end(); ++it) {
    if ((*it)->revision >= until) return false;
    if (num_asked++ == kMostAsked || (*it)->Lacks(name)) return true;
    CountLook();
  }
  return false;
}

void OpenSnapshots::Keep(KeptKeyPtr kept, uint64_t since, uint64_t until) {
  Former& former = former_[next_former_++];
  former.key = std::move(kept);
  former.since = since;
  former.until = until;
  former.num_readers = FirstFrom(until) - FirstFrom(since);
}

KeptKeyPtr OpenSnapshots::TakeNext(OpenSnapshot& snapshot) {
  const auto it = former_.lower_bound(snapshot.next_former);
  if (it == former_.end()) {
    snapshot.next_former = next_former_;
    return nullptr;
  }
  snapshot.next_former = it->first + 1;
  Former& former = it->second;
  if (snapshot.revision < former.since || snapshot.revision >= former.until) {
    return nullptr;
  }
  KeptKeyPtr key = former.key;
  if (--former.num_readers == 0) former_.erase(it);
  return key;
}

bool OpenSnapshots::Take(OpenSnapshot& snapshot, size_t max_keys,
                         std::vector<KeptKeyPtr>& taken,
                         std::vector<KeptKeyPtr>& dropped) {
  for (size_t i = 0; i < max_keys && !HasTakenAll(snapshot); ++i) {
    KeptKeyPtr key = TakeNext(snapshot);
    if (!key) continue;
    const bool is_lacking = snapshot.Lacks(key->name());
    (is_lacking ? taken : dropped).push_back(std::move(key));
  }
  return HasTakenAll(snapshot);
}

}  // namespace tensorkv

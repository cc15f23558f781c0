// The parts of a snapshot that several callers publish together.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_PARTS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/store/keyspace/snapshots/named_snapshot.h"

namespace tensorkv {

// Which parts of a number have come, and which keys each has. Guarded by the
// namespace's mutex. NamedSnapshots changes it.
//
// Each part is a snapshot of its own, at the revision of its call. Once all are
// there and ready, the last of them is the *head*: it gets the number, the
// terms and the leases of the whole, and readers find the others through it.
//
// Invariants:
//  1. Each part that is here has not gone: NamedSnapshots removes it from here
//     before it goes, or empties all of this.
//  2. Each key, and each prefix, belongs to one part. No prefix begins with
//     another.
class SnapshotParts {
 public:
  // Bounds the parts of a snapshot, and their keys where they have no prefixes,
  // which all go in one locking of the mutex.
  static constexpr uint32_t kMost = 1024;
  static constexpr size_t kMostKeys = 1 << 14;

  // Returns how long the parts wait for each other.
  static absl::Duration WaitOf(const SnapshotTerms& terms);

  // `first` is the terms of the part that has come first. They have a number
  // and a uid, by which the number is reserved.
  SnapshotParts(const SnapshotTerms& first, absl::Duration end);
  SnapshotParts(const SnapshotParts&) = delete;

  // Checks how many keys all parts have. Errors: ResourceExhausted
  // (LIMIT_REACHED).
  static absl::Status CheckNumKeys(size_t num_keys);
  // Checks that a part can come, or come again. Errors: InvalidArgument ·
  // ResourceExhausted (LIMIT_REACHED).
  absl::Status Check(const SnapshotTerms& terms) const;

  // Adds a part. REQUIRES: Check is OK, and that part is not here.
  void Add(uint32_t index, NamedSnapshot& part);
  void Remove(const NamedSnapshot& part);
  // Removes all parts, and returns them, the head last.
  std::vector<NamedSnapshot*> RemoveAll();
  // Returns null if that part is not here.
  NamedSnapshot* Find(uint32_t index) const {
    const auto it = parts_.find(index);
    return it == parts_.end() ? nullptr : it->second;
  }
  // Returns the part that has keys of that name; null if none has.
  const NamedSnapshot* PartOf(absl::string_view name) const;

  // Says that one more part can be read. Returns whether all can.
  bool AddReady() { return ++num_ready_ == count_; }
  // Makes a part the head, and has it count the keys and bytes of all.
  // REQUIRES: all can be read.
  void SetHead(NamedSnapshot& head);
  // Returns null until there is one.
  NamedSnapshot* head() const { return head_; }

  // Returns the parts by their indices.
  const std::map<uint32_t, NamedSnapshot*>& parts() const { return parts_; }
  size_t num_missing() const { return count_ - parts_.size(); }
  uint32_t count() const { return count_; }
  uint64_t number() const { return *terms_.number; }
  uint64_t uid() const { return terms_.uid; }
  absl::Duration end() const { return end_; }
  // Returns what the first part has said of the whole.
  SnapshotTerms TermsOfWhole() const;
  // Returns the bytes that belong to all parts.
  uint64_t HeldBytes() const;

 private:
  // Check that no part but `own` has one of the keys, or prefixes.
  absl::Status CheckKeys(const std::vector<std::string>& keys,
                         const NamedSnapshot* own) const;
  absl::Status CheckPrefixes(const std::vector<std::string>& prefixes,
                             const NamedSnapshot* own) const;
  // Returns the owner of the last prefix up to that name, if the name begins
  // with it; null otherwise.
  NamedSnapshot* OwnerOfPrefix(absl::string_view name) const;

  const SnapshotTerms terms_;
  const uint32_t count_;
  const bool has_prefixes_;
  const absl::Duration end_;
  std::map<uint32_t, NamedSnapshot*> parts_;
  // Who has which key, or which prefix: the texts are those of the parts.
  std::map<absl::string_view, NamedSnapshot*> owners_;
  size_t num_ready_ = 0;
  NamedSnapshot* head_ = nullptr;
};

// Returns the part of the snapshot that has keys of that name, itself if it is
// not made of parts; null if none has.
const NamedSnapshot* PartOf(const NamedSnapshot& snapshot,
                            absl::string_view name);

// Returns whether it is the whole of several parts.
bool IsOfParts(const NamedSnapshot& snapshot);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SNAPSHOT_PARTS_H_

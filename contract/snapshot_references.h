// Makes the references by which calls name the snapshot that they read.

#ifndef TENSORKV_CONTRACT_SNAPSHOT_REFERENCES_H_
#define TENSORKV_CONTRACT_SNAPSHOT_REFERENCES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorkv/v1/snapshot.pb.h"

namespace tensorkv {

using v1::PublishAs;
using v1::SnapshotReference;

// Returns a reference to the snapshot of that number.
inline SnapshotReference SnapshotOf(absl::string_view series, uint64_t number) {
  SnapshotReference reference;
  reference.set_series(std::string(series));
  reference.set_number(number);
  return reference;
}

// Returns a reference to the latest snapshot that there is.
inline SnapshotReference LatestSnapshot(absl::string_view series) {
  SnapshotReference reference;
  reference.set_series(std::string(series));
  reference.set_latest(true);
  return reference;
}

// Returns a reference to the latest snapshot once it has at least that number,
// for which the call waits.
inline SnapshotReference SnapshotAtLeast(absl::string_view series,
                                         uint64_t number) {
  SnapshotReference reference;
  reference.set_series(std::string(series));
  reference.set_at_least(number);
  return reference;
}

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_SNAPSHOT_REFERENCES_H_

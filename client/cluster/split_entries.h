// Turns an entry of a call into an entry for each slice of its key, and their
// answers into one answer.
//
// Pure functions, thread-safe. Tensors are views of the caller's memory; rows
// in an order in which no slice has them are copied.

#ifndef TENSORKV_CLIENT_CLUSTER_SPLIT_ENTRIES_H_
#define TENSORKV_CLIENT_CLUSTER_SPLIT_ENTRIES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cluster/split_layout.h"
#include "client/destination.h"
#include "contract/requests.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tensorkv {

// SplitEntry says what became of an entry.
struct SplitEntry {
  // Null where it stayed as it is.
  const SplitLayout* layout = nullptr;
  // Its entries in the call that is made.
  size_t begin = 0;
  size_t end = 0;
  // For each of these, which of the rows it has; empty if there are no rows.
  std::vector<std::vector<int64_t>> rows;
};

// Append to `out` the entries, one for each slice, that an entry about a key of
// `layout` becomes. A pull of rows has none for slices without a row of it. The
// one for a PullEntry sets split.rows.
//
// Errors: InvalidArgument (a tensor of another shape; rows that the key does
// not have: ROW_OUT_OF_RANGE) · Unimplemented (an encoded tensor).
absl::Status AppendSlices(const std::string& key, const SplitLayout& layout,
                          SplitEntry& split,
                          google::protobuf::RepeatedPtrField<std::string>& out);
absl::Status AppendSlices(const InitEntry& entry, const SplitLayout& layout,
                          SplitEntry& split, std::vector<InitEntry>& out);
absl::Status AppendSlices(const SetStateEntry& entry, const SplitLayout& layout,
                          SplitEntry& split, std::vector<SetStateEntry>& out);
absl::Status AppendSlices(const GetStateEntry& entry, const SplitLayout& layout,
                          SplitEntry& split, std::vector<GetStateEntry>& out);
absl::Status AppendSlices(const PushEntry& entry, const SplitLayout& layout,
                          SplitEntry& split, std::vector<PushEntry>& out);
absl::Status AppendSlices(const PullEntry& entry, const SplitLayout& layout,
                          SplitEntry& split, std::vector<PullEntry>& out);

// These return the answer for a key, of the answers for its slices. A key is as
// new as its oldest slice: the version is the lowest.
Version JoinAnswers(const SplitEntry& split, absl::Span<const Version> answers);
// The contribution is a repeated one if it was there in all slices.
PushResult JoinAnswers(const SplitEntry& split,
                       absl::Span<const PushResult> answers);
// Bytes are sums; there is no digest.
KeyStatus JoinAnswers(const SplitEntry& split,
                      absl::Span<const KeyStatus* const> answers);
// The tensor has the rows of all slices, in `whole` if that has memory and
// their dtype and shape; what is there already is not copied. What has changed
// is told by slices where some have come as changes; then `whole` has memory.
// Errors: ResourceExhausted · Internal (slices that do not fit together).
absl::StatusOr<Value> JoinAnswers(const SplitEntry& split,
                                  absl::Span<const Value> answers,
                                  Tensor whole);

// Returns where the slices of `whole`, which has memory, are received.
std::vector<Destination> SliceDestinations(const SplitLayout& layout,
                                           Tensor& whole);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_SPLIT_ENTRIES_H_

// Which bytes of a call's payload one stream carries, and in which parts. The
// rules are those of Stripe and Part in tensorkv/v1/stream.proto.
//
// The payload is the elements of all entries, one after another.

#ifndef TENSORKV_CONTRACT_STRIPE_RANGE_H_
#define TENSORKV_CONTRACT_STRIPE_RANGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contract/stream_requests.h"

namespace tensorkv {

inline constexpr uint32_t kMaxStripes = 64;

// Bytes of a call's payload.
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t size_bytes() const { return end - begin; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// Returns the sizes of the entries' tensors, in bytes. Entries are InitEntry,
// PushEntry or Value; entries that skip have a size of 0.
template <typename Entries>
std::vector<uint64_t> TensorSizes(const Entries& entries) {
  std::vector<uint64_t> sizes;
  sizes.reserve(entries.size());
  for (const auto& entry : entries) {
    sizes.push_back(static_cast<uint64_t>(entry.tensor.size_bytes()));
  }
  return sizes;
}

// Returns the sum of `sizes`. Errors: InvalidArgument if it does not fit into
// int64_t.
absl::StatusOr<uint64_t> TotalBytes(absl::Span<const uint64_t> sizes);

// Checks the count and the index. Errors: InvalidArgument (count above 64 or 0,
// index not below count).
absl::Status CheckStripe(const Stripe& stripe);

// Returns the bytes that `stripe` carries of a payload of `total_bytes`.
// Errors: InvalidArgument (those of CheckStripe; a total above 2^63 - 1).
absl::StatusOr<ByteRange> StripeRange(uint64_t total_bytes,
                                      const Stripe& stripe);

// Bytes of one entry's elements.
struct PartRange {
  uint32_t entry = 0;
  uint64_t offset = 0;  // from the start of the entry's elements
  uint64_t size_bytes = 0;

  friend bool operator==(const PartRange&, const PartRange&) = default;
};

// Walks the parts of one stream, in constant time per part. A sender asks for
// the Next one, a receiver has it Accept what comes.
//
// Confined to one thread at a time.
class PartCursor {
 public:
  // `sizes` are those of all entries.
  // REQUIRES: `range` lies within their sum, which fits into int64_t.
  PartCursor(std::vector<uint64_t> sizes, ByteRange range);

  // Returns the entry of the next part. REQUIRES: not complete.
  size_t entry() const { return entry_; }
  // Returns the next part, of at most `max_bytes`, and moves past it; nullopt
  // after the last. A part is never empty, and never spans entries.
  // REQUIRES: max_bytes > 0.
  std::optional<PartRange> Next(uint64_t max_bytes);

  // Moves past a part that has come. An empty part, of whatever entry, changes
  // nothing.
  // Errors: InvalidArgument, and nothing changes: a part that does not begin
  // where the one before ended, goes beyond its entry or the range, or comes
  // after the end.
  absl::Status Accept(const PartRange& part);

  bool is_complete() const { return bytes_left_ == 0; }
  // Checks that all bytes of the range have come. Errors: InvalidArgument,
  // which says how many have and how many were expected.
  absl::Status CheckComplete() const;

  uint64_t bytes_left() const { return bytes_left_; }

 private:
  // Returns the longest part that may come next. REQUIRES: not complete.
  PartRange Longest() const;
  void Advance(uint64_t bytes);
  // Moves on from the end of an entry to the next entry with elements.
  void SkipToBytes();

  const std::vector<uint64_t> sizes_;
  const uint64_t total_bytes_;  // of the range
  uint64_t bytes_left_;
  size_t entry_ = 0;
  uint64_t offset_ = 0;  // within the entry
};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_STRIPE_RANGE_H_

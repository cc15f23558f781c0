#include "contract/stripe_range.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// So that an offset fits into int64_t, and that arithmetic on it in uint64_t
// cannot overflow.
constexpr uint64_t kMaxTotalBytes = std::numeric_limits<int64_t>::max();

// Stripes begin at multiples of this: one cache line.
constexpr uint64_t kStripeAlignment = 64;

absl::Status CheckTotal(uint64_t total_bytes) {
  if (total_bytes <= kMaxTotalBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "payload: expected fewer than 2^63 bytes, got ", total_bytes));
}

uint64_t DivideRoundingUp(uint64_t dividend, uint64_t divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

std::string Place(const PartRange& part) {
  return absl::StrCat("entry ", part.entry, " at offset ", part.offset);
}

}  // namespace

absl::StatusOr<uint64_t> TotalBytes(absl::Span<const uint64_t> sizes) {
  uint64_t total = 0;
  for (uint64_t size : sizes) {
    RETURN_IF_ERROR(CheckTotal(size));
    total += size;
    RETURN_IF_ERROR(CheckTotal(total));
  }
  return total;
}

absl::Status CheckStripe(const Stripe& stripe) {
  if (stripe.count < 1 || stripe.count > kMaxStripes) {
    return absl::InvalidArgumentError(
        absl::StrCat("stripe: expected a count of 1 to ", kMaxStripes, ", got ",
                     stripe.count));
  }
  if (stripe.index >= stripe.count) {
    return absl::InvalidArgumentError(
        absl::StrCat("stripe: expected an index below ", stripe.count, ", got ",
                     stripe.index));
  }
  return absl::OkStatus();
}

absl::StatusOr<ByteRange> StripeRange(uint64_t total_bytes,
                                      const Stripe& stripe) {
  RETURN_IF_ERROR(CheckTotal(total_bytes));
  RETURN_IF_ERROR(CheckStripe(stripe));
  const uint64_t per_stripe = DivideRoundingUp(total_bytes, stripe.count);
  const uint64_t aligned =
      DivideRoundingUp(per_stripe, kStripeAlignment) * kStripeAlignment;
  const uint64_t begin = stripe.index * aligned;
  return ByteRange{std::min(begin, total_bytes),
                   std::min(begin + aligned, total_bytes)};
}

PartCursor::PartCursor(std::vector<uint64_t> sizes, ByteRange range)
    : sizes_(std::move(sizes)),
      total_bytes_(range.size_bytes()),
      bytes_left_(total_bytes_),
      offset_(range.begin) {
  SkipToBytes();
}

std::optional<PartRange> PartCursor::Next(uint64_t max_bytes) {
  if (is_complete()) return std::nullopt;
  PartRange part = Longest();
  part.size_bytes = std::min(part.size_bytes, max_bytes);
  Advance(part.size_bytes);
  return part;
}

absl::Status PartCursor::Accept(const PartRange& part) {
  // It brings nothing, wherever it comes.
  if (part.size_bytes == 0 && part.entry < sizes_.size() &&
      part.offset <= sizes_[part.entry]) {
    return absl::OkStatus();
  }
  if (is_complete()) {
    return absl::InvalidArgumentError(
        absl::StrCat("part: expected none after all ", total_bytes_,
                     " bytes of the stream, got ", Place(part)));
  }
  const PartRange longest = Longest();
  if (part.entry != longest.entry || part.offset != longest.offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("part: expected ", Place(longest), ", got ", Place(part)));
  }
  if (part.size_bytes > longest.size_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("part of ", Place(part), ": expected at most ",
                     longest.size_bytes, " bytes, which end the ",
                     longest.size_bytes == bytes_left_ ? "stream" : "entry",
                     ", got ", part.size_bytes));
  }
  Advance(part.size_bytes);
  return absl::OkStatus();
}

absl::Status PartCursor::CheckComplete() const {
  if (is_complete()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("parts: expected ",
                                                 total_bytes_, " bytes, got ",
                                                 total_bytes_ - bytes_left_));
}

PartRange PartCursor::Longest() const {
  return {.entry = static_cast<uint32_t>(entry_),
          .offset = offset_,
          .size_bytes = std::min(sizes_[entry_] - offset_, bytes_left_)};
}

void PartCursor::Advance(uint64_t bytes) {
  bytes_left_ -= bytes;
  offset_ += bytes;
  SkipToBytes();
}

void PartCursor::SkipToBytes() {
  while (bytes_left_ > 0 && offset_ >= sizes_[entry_]) {
    offset_ -= sizes_[entry_];
    ++entry_;
  }
}

}  // namespace tensorkv

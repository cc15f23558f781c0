#include "bench/data_path/sockets/segment_stream.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace tensorkv::bench {
namespace {

// The first `size` bytes of `segment` as they came and as they should have.
absl::Status Check(const Segment& segment, size_t size) {
  if (segment.expected == nullptr ||
      std::memcmp(segment.data, segment.expected, size) == 0) {
    return absl::OkStatus();
  }
  constexpr size_t kMostShown = 200;
  const size_t shown = std::min(size, kMostShown);
  return absl::InternalError(absl::StrCat(
      "expected \"", absl::CEscape(absl::string_view(segment.expected, shown)),
      "\", got \"", absl::CEscape(absl::string_view(segment.data, shown)),
      "\""));
}

}  // namespace

void SegmentStream::Add(int call, absl::Span<const Segment> segments) {
  calls_.push_back({.call = call, .segments = segments});
}

int SegmentStream::Fill(absl::Span<iovec> vectors) const {
  size_t count = 0;
  size_t skipped = moved_bytes_;
  for (const PendingCall& call : calls_) {
    for (const Segment& segment : call.segments) {
      if (count == vectors.size()) return static_cast<int>(count);
      vectors[count++] = {.iov_base = segment.data + skipped,
                          .iov_len = segment.size - skipped};
      skipped = 0;
    }
  }
  return static_cast<int>(count);
}

absl::Status SegmentStream::Advance(size_t size_bytes,
                                    absl::FunctionRef<void(int)> on_done) {
  moved_bytes_ += size_bytes;
  while (!calls_.empty()) {
    PendingCall& first = calls_.front();
    while (!first.segments.empty() &&
           first.segments.front().size <= moved_bytes_) {
      const Segment& segment = first.segments.front();
      RETURN_IF_ERROR(Check(segment, segment.size));
      moved_bytes_ -= segment.size;
      first.segments.remove_prefix(1);
    }
    if (!first.segments.empty()) {
      return Check(first.segments.front(), moved_bytes_);
    }
    const int call = first.call;
    calls_.pop_front();
    on_done(call);
  }
  return absl::OkStatus();
}

}  // namespace tensorkv::bench

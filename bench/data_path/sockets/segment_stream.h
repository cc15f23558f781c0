// The bytes of one direction of a connection.

#ifndef TENSORKV_BENCH_DATA_PATH_SOCKETS_SEGMENT_STREAM_H_
#define TENSORKV_BENCH_DATA_PATH_SOCKETS_SEGMENT_STREAM_H_

#include <sys/uio.h>

#include <cstddef>
#include <deque>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "bench/data_path/sockets/exchange.h"

namespace tensorkv::bench {

// Segments of several calls, one after the other, and how far they have been
// moved. Not thread-safe.
class SegmentStream {
 public:
  // `segments` must live until the call's end has been reported.
  void Add(int call, absl::Span<const Segment> segments);

  bool empty() const { return calls_.empty(); }

  // The next bytes to move, as many as fit into `vectors`; how many of these
  // were set.
  int Fill(absl::Span<iovec> vectors) const;

  // Notes that `size_bytes` more have been moved. Reports calls that are
  // complete.
  // Errors: Internal if bytes are others than those expected.
  absl::Status Advance(size_t size_bytes, absl::FunctionRef<void(int)> on_done);

 private:
  struct PendingCall {
    int call;
    absl::Span<const Segment> segments;  // the first is partly moved
  };

  std::deque<PendingCall> calls_;
  size_t moved_bytes_ = 0;  // of the first segment
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SOCKETS_SEGMENT_STREAM_H_

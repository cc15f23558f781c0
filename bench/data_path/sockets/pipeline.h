// Calls over connections, driven by one thread.

#ifndef TENSORKV_BENCH_DATA_PATH_SOCKETS_PIPELINE_H_
#define TENSORKV_BENCH_DATA_PATH_SOCKETS_PIPELINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "bench/data_path/sockets/exchange.h"
#include "bench/data_path/sockets/segment_stream.h"
#include "bench/data_path/sockets/socket.h"

namespace tensorkv::bench {

// A call that is complete when all its exchanges are; they run side by side.
struct PipelinedCall {
  struct Part {
    int connection = 0;
    Exchange exchange;
  };
  std::vector<Part> parts;
};

// Sends requests without waiting for the replies to earlier ones, over one or
// several connections to a server that answers each connection's requests in
// their order. Not thread-safe.
class Pipeline {
 public:
  // Errors: those of ConnectTo.
  static absl::StatusOr<Pipeline> Connect(const std::string& address,
                                          int num_connections);

  // Makes `num_calls` calls: each of `calls` again and again, all of them
  // under way at once. Reports how long each took.
  // Errors: Internal for replies that are not as expected; Unavailable where
  // the server closes; DeadlineExceeded after half a minute of silence. The
  // pipeline cannot be used after an error.
  absl::Status Run(absl::Span<const PipelinedCall> calls, int64_t num_calls,
                   absl::FunctionRef<void(absl::Duration)> on_done);

 private:
  struct Connection {
    Socket socket;
    SegmentStream outgoing;
    SegmentStream incoming;
  };
  // The calls of one Run.
  class Progress;

  explicit Pipeline(std::vector<Connection> connections)
      : connections_(std::move(connections)) {}

  void StartReadyCalls(Progress* progress);
  // Both tell whether anything moved.
  absl::StatusOr<bool> Send(Connection* connection);
  absl::StatusOr<bool> Receive(Connection* connection, Progress* progress);
  absl::Status AwaitReady() const;

  std::vector<Connection> connections_;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SOCKETS_PIPELINE_H_

// Has the server look at its connections before gRPC reads from them.

#ifndef TENSORKV_SERVICE_SERVER_CONNECTION_FILTER_H_
#define TENSORKV_SERVICE_SERVER_CONNECTION_FILTER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// Refuses connections, or ends them for what they send. Thread-safe.
class ConnectionFilter {
 public:
  struct Limits {
    // Bounds the bytes of messages of which only a part has come, over all
    // connections.
    uint64_t max_unfinished_bytes = 0;
    // Bounds the HTTP/2 streams that one connection may have open. gRPC
    // announces the same bound to its peers.
    size_t max_streams = 0;
  };
  struct Counts {
    // Counts the connections that were ended for what they sent.
    uint64_t num_cut = 0;
    // Counts the bytes of messages of which a part has come.
    uint64_t unfinished_bytes = 0;
  };

  virtual ~ConnectionFilter() = default;

  // Watches a connection, from before its first byte is read to its end. The
  // descriptor stays the caller's.
  // Errors: ResourceExhausted (its address is refused for now): the caller
  // closes it before gRPC makes a transport of it, which costs much more.
  virtual absl::Status Watch(int fd) = 0;

  virtual Counts counts() = 0;
};

// Makes the filter of one server. The filter calls `on_cut` with a line that
// says why it has cut a peer off, and the peer's address; on any thread, until
// all connections are closed. `on_cut` does not block.
using MakeConnectionFilter = std::function<std::unique_ptr<ConnectionFilter>(
    const ConnectionFilter::Limits& limits,
    std::function<void(absl::string_view reason)> on_cut)>;

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_CONNECTION_FILTER_H_

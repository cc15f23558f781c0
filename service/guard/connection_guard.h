// Cuts off peers that send what gRPC does not bound.

#ifndef TENSORKV_SERVICE_GUARD_CONNECTION_GUARD_H_
#define TENSORKV_SERVICE_GUARD_CONNECTION_GUARD_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/server/connection_filter.h"

namespace tensorkv {

// Sees the bytes of connections before gRPC does, and ends those that send
//
//  - what is no HTTP/2: gRPC would answer before it ends such a connection;
//  - a header block of more than kMaxHeaderBlockBytes: gRPC 1.51 keeps the
//    whole block, however long (CONTINUATION flood);
//  - resets of calls faster than an allowance: each costs the server much more
//    than the peer (rapid reset, CVE-2023-44487). What counts is the peer's
//    address: a new connection gives nobody a new allowance. A connection that
//    has been there for a while has a small one of its own, so that whoever
//    shares an address with an attacker may cancel calls. Streams that are open
//    when a connection ends count as well, and as some at least where it is cut
//    off for what it sent, or ends without a call; an address in debt for
//    resets is refused when it comes back;
//  - pings or settings faster than an allowance: gRPC decides early to end such
//    a connection, but reads on until its last frame is written, and keeps an
//    error of each ping until then;
//  - more streams at a time than they may open: gRPC 1.51 holds a peer to that
//    only once it has acknowledged the setting, which it need not do;
//  - the most of messages that are not complete, where those of all connections
//    together take more than a bound (UnfinishedMessages): gRPC keeps them. To
//    send some is allowed: this costs as any end does.
//
// gRPC offers no place for that: this defines recvmsg and sendmsg, by which it
// reads and writes, for the whole process
// (docs/decisions/0014-frames-before-grpc.md).
// Thread-safe.
class ConnectionGuard final : public ConnectionFilter {
 public:
  static constexpr uint64_t kMaxHeaderBlockBytes = 64 * 1024;
  // Resets are counted by address: so many at once, and so many a second.
  static constexpr double kMaxResets = 5000;
  static constexpr double kResetsPerSecond = 1000;
  // How many resets it costs an address when a connection is cut off for what
  // it sent, or ends without having begun a call: gRPC takes 0.4 ms for each.
  // So 10 or 50 a second.
  static constexpr double kResetsOfCut = 100;
  static constexpr double kResetsWithoutCall = 20;
  // The allowance of each connection, which begins with nothing.
  static constexpr double kMaxResetsOfConnection = 100;
  static constexpr double kResetsPerSecondOfConnection = 20;
  // Pings and settings, also by connection. Peers that measure the bandwidth
  // ping all the time.
  static constexpr double kMaxAcks = 10'000;
  static constexpr double kAcksPerSecond = 1000;
  // Pings while the server sends nothing of calls. gRPC ends connections for
  // three.
  static constexpr double kMaxIdlePings = 100;
  static constexpr double kIdlePingsPerSecond = 1;

  // `limits` and `on_cut` are those of MakeConnectionFilter.
  ConnectionGuard(const Limits& limits,
                  std::function<void(absl::string_view reason)> on_cut);

  // Watches the connection until its descriptor is closed, or means another
  // socket.
  absl::Status Watch(int fd) override;
  Counts counts() override;

  class State;

 private:
  const std::shared_ptr<State> state_;
};

// Returns a ConnectionGuard; a MakeConnectionFilter.
std::unique_ptr<ConnectionFilter> MakeConnectionGuard(
    const ConnectionFilter::Limits& limits,
    std::function<void(absl::string_view reason)> on_cut);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_GUARD_CONNECTION_GUARD_H_

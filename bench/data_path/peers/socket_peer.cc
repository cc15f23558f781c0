#include "bench/data_path/peers/socket_peer.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"
#include "bench/data_path/sockets/exchange.h"
#include "bench/data_path/sockets/socket.h"

namespace tensorkv::bench {
namespace {

// A call that is made again and again over one connection.
struct SocketLane {
  FileDescriptor connection;
  ValueRange range;
  Exchange call;
};

// The calls of one workload.
struct SocketCalls {
  Payload payload;
  std::vector<SocketLane> lanes;

  absl::Status Call(int index) {
    SocketLane& lane = lanes[index];
    RETURN_IF_ERROR(lane.call.Run(lane.connection.get()));
    if (payload.rooms.empty()) return absl::OkStatus();
    return CheckEnds(BytesOf(payload.values), BytesOf(payload.rooms[index]));
  }
};

absl::StatusOr<SocketLane> MakeLane(const std::string& address,
                                    const WireProtocol& protocol,
                                    const Workload& workload, int index,
                                    Payload* payload) {
  SocketLane lane;
  lane.range = {.lane = index,
                .num_keys = workload.num_keys,
                .bytes_per_key = workload.bytes_per_key};
  ASSIGN_OR_RETURN(lane.connection, ConnectTo(address));
  Exchange put;
  protocol.add_put(lane.range, payload->values.data(), &put);
  RETURN_IF_ERROR(put.Run(lane.connection.get()));
  if (workload.pushes()) lane.call = std::move(put);
  if (workload.pulls()) {
    protocol.add_get(lane.range, payload->rooms[index].mutable_data(),
                     &lane.call);
  }
  return lane;
}

void Delete(const WireProtocol& protocol,
            const std::vector<SocketLane>& lanes) {
  for (const SocketLane& lane : lanes) {
    Exchange exchange;
    protocol.add_delete(lane.range, &exchange);
    // The next load's values take the place of these.
    exchange.Run(lane.connection.get()).IgnoreError();
  }
}

absl::StatusOr<std::unique_ptr<Load>> MakeLoad(const SocketPeerOptions& options,
                                               const WireProtocol& protocol,
                                               const Workload& workload) {
  if (workload.bytes_per_key > protocol.max_value_bytes) {
    return absl::OutOfRangeError(
        absl::StrCat(options.name, " takes values of at most ",
                     protocol.max_value_bytes, " bytes"));
  }
  const auto calls = std::make_shared<SocketCalls>();
  ASSIGN_OR_RETURN(calls->payload, MakePayload(workload));
  for (int i = 0; i < workload.in_flight; ++i) {
    ASSIGN_OR_RETURN(SocketLane lane, MakeLane(options.address, protocol,
                                               workload, i, &calls->payload));
    calls->lanes.push_back(std::move(lane));
  }
  return std::make_unique<FunctionLoad>(
      ShapeOf(workload, options.server),
      [calls](int lane) { return calls->Call(lane); },
      [calls, protocol] { Delete(protocol, calls->lanes); });
}

}  // namespace

Peer SocketPeer(const SocketPeerOptions& options,
                const WireProtocol& protocol) {
  return {.name = options.name,
          .make_load = [options, protocol](const Workload& workload) {
            return MakeLoad(options, protocol, workload);
          }};
}

}  // namespace tensorkv::bench

// How servers are asked over a socket to keep values and to give them back.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_WIRE_PROTOCOL_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_WIRE_PROTOCOL_H_

#include <cstdint>

#include "bench/data_path/sockets/exchange.h"

namespace tensorkv::bench {

// Values of one size, in memory one after the other.
struct ValueRange {
  int lane = 0;  // their keys are KeyText(lane, 0), KeyText(lane, 1), ...
  int64_t num_keys = 1;
  int64_t bytes_per_key = 0;

  int64_t size_bytes() const { return num_keys * bytes_per_key; }
};

struct WireProtocol {
  int64_t max_value_bytes = 0;

  // Each appends a request and the reply of a server where all goes well. What
  // is got or deleted exists.
  void (*add_put)(const ValueRange& range, const char* values,
                  Exchange* exchange) = nullptr;
  void (*add_get)(const ValueRange& range, char* values,
                  Exchange* exchange) = nullptr;
  void (*add_delete)(const ValueRange& range, Exchange* exchange) = nullptr;
};

// The floor: a RawHeader before each request and before each reply. A lane's
// values are one value, in the slot of the lane's number.
extern const WireProtocol kRawProtocol;

// RESP2: SET and GET, for several keys MSET and MGET.
extern const WireProtocol kRedisProtocol;

// The text protocol: a set per key, a get for some dozens of keys.
extern const WireProtocol kMemcachedProtocol;

enum class RawOperation : uint32_t { kPut = 1, kGet = 2, kDelete = 3 };

// As it is on the wire, in the byte order of the machine: both ends are on it.
// The reply to a request begins with its header again; a get's has the size of
// the value that follows.
struct RawHeader {
  RawOperation operation = RawOperation::kPut;
  uint32_t slot = 0;
  uint64_t size_bytes = 0;  // of the value that follows
};
static_assert(sizeof(RawHeader) == 16);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_WIRE_PROTOCOL_H_

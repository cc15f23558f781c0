// How a server is asked over a socket to keep values and to give them back.

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

// Each method appends a request and the reply of a server where all goes well.
// Thread-safe.
class WireProtocol {
 public:
  virtual ~WireProtocol() = default;

  virtual void AddPut(const ValueRange& range, const char* values,
                      Exchange* exchange) const = 0;
  // For keys that exist.
  virtual void AddGet(const ValueRange& range, char* values,
                      Exchange* exchange) const = 0;
  // For keys that exist.
  virtual void AddDelete(const ValueRange& range, Exchange* exchange) const = 0;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_WIRE_PROTOCOL_H_

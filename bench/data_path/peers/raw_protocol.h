// The least framing that a store can have: a header of 16 bytes before each
// request and before each reply. Measured as the floor.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_RAW_PROTOCOL_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_RAW_PROTOCOL_H_

#include <cstdint>

#include "bench/data_path/peers/wire_protocol.h"

namespace tensorkv::bench {

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

// A lane's values are one value, in the slot of the lane's number.
class RawProtocol final : public WireProtocol {
 public:
  void AddPut(const ValueRange& range, const char* values,
              Exchange* exchange) const override;
  void AddGet(const ValueRange& range, char* values,
              Exchange* exchange) const override;
  void AddDelete(const ValueRange& range, Exchange* exchange) const override;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_RAW_PROTOCOL_H_

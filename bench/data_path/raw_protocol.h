// The floor of what a store costs: a header before each request and each reply.

#ifndef TENSORKV_BENCH_DATA_PATH_RAW_PROTOCOL_H_
#define TENSORKV_BENCH_DATA_PATH_RAW_PROTOCOL_H_

#include <cstdint>

namespace tensorkv::bench {

enum class RawOperation : uint64_t { kPut = 1, kGet = 2, kDelete = 3 };

// As it is on the wire, in the byte order of the machine: both ends are on it.
// The reply to a request begins with its header again; a get's has the size of
// the value that follows. A connection has one value.
struct RawHeader {
  RawOperation operation = RawOperation::kPut;
  uint64_t size_bytes = 0;  // of the value that follows
};
static_assert(sizeof(RawHeader) == 16);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_RAW_PROTOCOL_H_

// memcached's text protocol: a set per key, a get for some dozens of keys.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_MEMCACHED_PROTOCOL_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_MEMCACHED_PROTOCOL_H_

#include "bench/data_path/peers/wire_protocol.h"

namespace tensorkv::bench {

class MemcachedProtocol final : public WireProtocol {
 public:
  // memcached's bound for --max-item-size, which the key and the item's header
  // count for.
  static constexpr int64_t kMaxValueBytes = (int64_t{1} << 30) - 4096;

  // Its lines are bounded.
  static constexpr int64_t kKeysPerGet = 64;

  void AddPut(const ValueRange& range, const char* values,
              Exchange* exchange) const override;
  void AddGet(const ValueRange& range, char* values,
              Exchange* exchange) const override;
  void AddDelete(const ValueRange& range, Exchange* exchange) const override;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_MEMCACHED_PROTOCOL_H_

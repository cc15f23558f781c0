// Redis's protocol, RESP2: SET and GET, for several keys MSET and MGET.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_REDIS_PROTOCOL_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_REDIS_PROTOCOL_H_

#include "bench/data_path/peers/wire_protocol.h"

namespace tensorkv::bench {

class RedisProtocol final : public WireProtocol {
 public:
  // Redis's default for the longest string.
  static constexpr int64_t kMaxValueBytes = int64_t{512} << 20;

  void AddPut(const ValueRange& range, const char* values,
              Exchange* exchange) const override;
  void AddGet(const ValueRange& range, char* values,
              Exchange* exchange) const override;
  void AddDelete(const ValueRange& range, Exchange* exchange) const override;
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_REDIS_PROTOCOL_H_

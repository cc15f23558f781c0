// The server's side of the raw protocol.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_RAW_SERVER_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_RAW_SERVER_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "bench/data_path/peers/wire_protocol.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {

// Receives each value into memory that its slot keeps, and sends it from
// there. Slots are not locked while bytes move: clients use different ones at
// the same time. Thread-safe.
class RawServer {
 public:
  // Answers one connection until the peer closes it.
  // Errors: InvalidArgument for a wrong header, NotFound for an empty slot,
  // Unavailable where the connection breaks.
  absl::Status Serve(int connection);

 private:
  absl::Status Answer(int connection, RawHeader header);

  // The memory of a slot, resized to `size_bytes`.
  absl::StatusOr<Tensor> RoomOf(uint32_t slot, uint64_t size_bytes);
  absl::StatusOr<Tensor> ValueOf(uint32_t slot);
  void Delete(uint32_t slot);

  Mutex mutex_;
  absl::flat_hash_map<uint32_t, Tensor> slots_ ABSL_GUARDED_BY(mutex_);
};

// Answers every connection on a thread of its own, for ever.
// Errors: those of AcceptFrom.
absl::Status ServeRaw(int listener);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_RAW_SERVER_H_

// Memory for values.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_PAYLOAD_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_PAYLOAD_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/data_path/peers/workload.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {

// f32 tensors of rank 1; `size_bytes` is a multiple of 4. Every page has been
// touched. Errors: those of Tensor::Allocate.

// Numbers that look random, the same every time.
absl::StatusOr<Tensor> MakeValues(int64_t size_bytes);

// Zeros, to be received into.
absl::StatusOr<Tensor> MakeRoom(int64_t size_bytes);

// What a load's calls send, and where each lane receives.
struct Payload {
  Tensor values;
  std::vector<Tensor> rooms;  // one for each lane of a workload that pulls
};
absl::StatusOr<Payload> MakePayload(const Workload& workload);

inline absl::string_view BytesOf(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.size_bytes())};
}

// Whether the ends of what came back are those of `sent`: a look at every byte
// would be measured too.
// Errors: Internal.
absl::Status CheckEnds(absl::string_view sent, absl::string_view received);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_PAYLOAD_H_

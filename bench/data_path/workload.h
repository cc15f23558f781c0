// What stores are asked to do.

#ifndef TENSORKV_BENCH_DATA_PATH_WORKLOAD_H_
#define TENSORKV_BENCH_DATA_PATH_WORKLOAD_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/tensor.h"

namespace tensorkv::bench {

inline constexpr int64_t kKiB = 1 << 10;
inline constexpr int64_t kMiB = 1 << 20;
inline constexpr int64_t kGiB = 1 << 30;

enum class Verb { kPush, kPull, kPushPull };

// Returns "push", "pull" or "pushpull".
absl::string_view NameOf(Verb verb);

// Calls of one kind.
struct Workload {
  Verb verb = Verb::kPush;
  int64_t bytes_per_key = 0;  // a multiple of 4
  int64_t num_keys = 1;       // in one call

  int64_t size_bytes() const { return bytes_per_key * num_keys; }
  // Returns what one call moves; pushpull both ways.
  int64_t bytes_moved() const {
    return size_bytes() * (verb == Verb::kPushPull ? 2 : 1);
  }
  bool pushes() const { return verb != Verb::kPull; }
  bool pulls() const { return verb != Verb::kPush; }
};

// Returns the size in the largest unit that divides it: "256B", "64MiB",
// "1GiB".
std::string ByteText(int64_t bytes);

// Returns "64MiB", or "10000x256B".
std::string SizeText(int64_t bytes_per_key, int64_t num_keys);
inline std::string SizeText(const Workload& workload) {
  return SizeText(workload.bytes_per_key, workload.num_keys);
}

// Returns the name of a key; loads that are there at the same time have lanes
// of their own.
std::string KeyText(int lane, int64_t index);

// Returns an f32 tensor of rank 1 of numbers that look random, the same every
// time, or of zeros; `size_bytes` is a multiple of 4. Every page has been
// touched.
// Errors: those of Tensor::Allocate.
absl::StatusOr<Tensor> MakeValues(int64_t size_bytes);
absl::StatusOr<Tensor> MakeZeros(int64_t size_bytes);

// Checks that the ends of what came back are those of `sent`: a look at every
// byte would be measured too.
// Errors: Internal.
absl::Status CheckEnds(absl::string_view sent, absl::string_view received);

inline absl::string_view BytesOf(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.size_bytes())};
}

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_WORKLOAD_H_

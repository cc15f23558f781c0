// Where a server keeps its tensors, as its flag says.

#ifndef TENSORKV_SERVICE_SERVER_DEVICE_CHOICE_H_
#define TENSORKV_SERVICE_SERVER_DEVICE_CHOICE_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

inline constexpr size_t kMaxGpus = 64;

struct DeviceChoice {
  enum class Kind {
    kCpu,
    kCuda,  // all of these GPUs, or no server
    kAuto,  // the GPU if it can be used, else the CPU
  };

  Kind kind = Kind::kCpu;
  // GPUs by their numbers in CUDA; different ones.
  std::vector<int> ordinals = {0};
};

// "auto", "cpu", "cuda", which is "cuda:0", or "cuda:" and numbers of GPUs,
// with commas between them.
// Errors: InvalidArgument for all else, also for more than kMaxGpus.
absl::StatusOr<DeviceChoice> ParseDeviceChoice(absl::string_view text);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_DEVICE_CHOICE_H_

// Where a server keeps its tensors, as its flag says.

#ifndef TENSORKV_SERVICE_SERVER_DEVICE_CHOICE_H_
#define TENSORKV_SERVICE_SERVER_DEVICE_CHOICE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

struct DeviceChoice {
  enum class Kind {
    kCpu,
    kCuda,  // that GPU, or no server
    kAuto,  // the GPU if it can be used, else the CPU
  };

  Kind kind = Kind::kCpu;
  // The GPU by its number in CUDA.
  int ordinal = 0;
};

// Parses "auto", "cpu", "cuda", which is "cuda:0", or "cuda:" and the number of
// a GPU. Errors: InvalidArgument for any other text.
absl::StatusOr<DeviceChoice> ParseDeviceChoice(absl::string_view text);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_DEVICE_CHOICE_H_

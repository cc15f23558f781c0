#include "service/server/device_choice.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tensorkv {

absl::StatusOr<DeviceChoice> ParseDeviceChoice(absl::string_view text) {
  using Kind = DeviceChoice::Kind;
  if (text == "auto") return DeviceChoice{Kind::kAuto};
  if (text == "cpu") return DeviceChoice{Kind::kCpu};
  if (text == "cuda") return DeviceChoice{Kind::kCuda};
  absl::string_view number = text;
  const bool is_cuda = absl::ConsumePrefix(&number, "cuda:");
  if (is_cuda && absl::StrContains(number, ',')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected one GPU, got \"", text,
        "\": run one server for each GPU, as a cluster (docs/gpu.md)"));
  }
  int ordinal = 0;
  if (is_cuda && absl::SimpleAtoi(number, &ordinal) && ordinal >= 0) {
    return DeviceChoice{Kind::kCuda, ordinal};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected auto, cpu, cuda or cuda:N, got \"", text, "\""));
}

}  // namespace tensorkv

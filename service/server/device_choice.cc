#include "service/server/device_choice.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tensorkv {
namespace {

absl::Status Unknown(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected auto, cpu, cuda or cuda:0, got \"", text, "\""));
}

}  // namespace

absl::StatusOr<DeviceChoice> ParseDeviceChoice(absl::string_view text) {
  using Kind = DeviceChoice::Kind;
  if (text == "auto") return DeviceChoice{Kind::kAuto};
  if (text == "cpu") return DeviceChoice{Kind::kCpu};
  if (text == "cuda") return DeviceChoice{Kind::kCuda};
  absl::string_view ordinals = text;
  if (!absl::ConsumePrefix(&ordinals, "cuda:")) return Unknown(text);
  int ordinal = 0;
  for (const absl::string_view part : absl::StrSplit(ordinals, ',')) {
    if (!absl::SimpleAtoi(part, &ordinal) || ordinal < 0) return Unknown(text);
  }
  if (absl::StrContains(ordinals, ',')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a server of this version keeps its tensors on one GPU, got \"", text,
        "\""));
  }
  return DeviceChoice{Kind::kCuda, ordinal};
}

}  // namespace tensorkv

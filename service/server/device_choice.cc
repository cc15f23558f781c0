#include "service/server/device_choice.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tensorkv {
namespace {

absl::Status Unknown(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "expected auto, cpu, cuda, cuda:N or cuda:N,M,..., got \"", text, "\""));
}

}  // namespace

absl::StatusOr<DeviceChoice> ParseDeviceChoice(absl::string_view text) {
  using Kind = DeviceChoice::Kind;
  if (text == "auto") return DeviceChoice{Kind::kAuto};
  if (text == "cpu") return DeviceChoice{Kind::kCpu};
  if (text == "cuda") return DeviceChoice{Kind::kCuda};
  absl::string_view list = text;
  if (!absl::ConsumePrefix(&list, "cuda:")) return Unknown(text);
  std::vector<int> ordinals;
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    int ordinal = 0;
    if (!absl::SimpleAtoi(part, &ordinal) || ordinal < 0) return Unknown(text);
    if (absl::c_linear_search(ordinals, ordinal)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected every GPU once, got ", ordinal, " twice in \"",
                       text, "\""));
    }
    ordinals.push_back(ordinal);
  }
  if (ordinals.size() > kMaxGpus) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected at most ", kMaxGpus, " GPUs, got ", ordinals.size()));
  }
  return DeviceChoice{Kind::kCuda, std::move(ordinals)};
}

}  // namespace tensorkv

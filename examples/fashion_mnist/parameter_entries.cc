#include "examples/fashion_mnist/parameter_entries.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv::fashion_mnist {

std::vector<InitEntry> InitEntries(const Parameters& parameters) {
  std::vector<InitEntry> entries;
  for (size_t i = 0; i < kNumParameters; ++i) {
    entries.push_back(
        {.key = std::string(kParameterKeys[i]), .tensor = parameters[i]});
  }
  return entries;
}

std::vector<PushEntry> PushEntries(const Parameters& parameters) {
  std::vector<PushEntry> entries;
  for (size_t i = 0; i < kNumParameters; ++i) {
    entries.push_back(
        {.key = std::string(kParameterKeys[i]), .tensor = parameters[i]});
  }
  return entries;
}

std::vector<std::string> PullKeys() {
  return {kParameterKeys.begin(), kParameterKeys.end()};
}

absl::StatusOr<Parameters> ParametersOf(const NetworkSize& size,
                                        const PullReply& reply) {
  if (reply.values.size() != kNumParameters) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected ", kNumParameters, " parameters, got ", reply.values.size()));
  }
  Parameters parameters;
  for (size_t i = 0; i < kNumParameters; ++i) {
    parameters[i] = reply.values[i].tensor;
  }
  RETURN_IF_ERROR(CheckParameters(size, parameters));
  return parameters;
}

}  // namespace tensorkv::fashion_mnist

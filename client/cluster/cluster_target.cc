#include "client/cluster/cluster_target.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tensorkv {
namespace {

constexpr absl::string_view kScheme = "cluster:";

}  // namespace

bool IsClusterTarget(absl::string_view target) {
  return absl::StartsWith(target, kScheme);
}

absl::StatusOr<std::vector<std::string>> ParseClusterTarget(
    absl::string_view target) {
  std::vector<std::string> servers =
      absl::StrSplit(absl::StripPrefix(target, kScheme), ',');
  for (const std::string& server : servers) {
    if (!server.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("target: expected \"cluster:host:port,host:port\", got \"",
                     target, "\""));
  }
  return servers;
}

}  // namespace tensorkv

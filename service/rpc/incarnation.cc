#include "service/rpc/incarnation.h"

#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/incarnation_metadata.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

absl::Status IsAnother(absl::string_view expected, absl::string_view present) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "server: expected incarnation ", expected, ", got ", present,
          ": it was restarted, and may not have the state that this client has "
          "seen")),
      Reason::kServerRestarted, {{"incarnation", present}});
}

}  // namespace

Incarnation::Incarnation(uint64_t id, std::function<absl::Status()> health)
    : id_(id), health_(std::move(health)) {}

absl::Status Incarnation::CheckIncarnation(Method method,
                                           grpc::CallbackServerContext& context,
                                           Caller& caller) const {
  const absl::Status expected = CheckExpected(context);
  if (RepeatOf(method) == Repeat::kByCallId &&
      ReasonOf(expected) == Reason::kServerRestarted) {
    caller.unless_remembered = expected;
  } else {
    RETURN_IF_ERROR(expected);
  }
  return health_ ? health_() : absl::OkStatus();
}

absl::Status Incarnation::CheckExpected(
    grpc::CallbackServerContext& context) const {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kIncarnationMetadata);
  const uint64_t present = id_;
  if (found == metadata.end()) {
    context.AddInitialMetadata(kIncarnationMetadata,
                               FormatIncarnation(present));
    return absl::OkStatus();
  }
  const absl::string_view expected(found->second.data(), found->second.size());
  const std::optional<uint64_t> id = ParseIncarnation(expected);
  if (id == present) return absl::OkStatus();
  if (id) return IsAnother(expected, FormatIncarnation(present));
  return absl::InvalidArgumentError(
      absl::StrCat(kIncarnationMetadata,
                   ": expected 16 hexadecimal digits, "
                   "got \"",
                   absl::CHexEscape(expected.substr(0, 64)), "\""));
}

}  // namespace tensorkv

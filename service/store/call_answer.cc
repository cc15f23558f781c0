#include "service/store/call_answer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/types/optional.h"
#include "base/shown_text.h"
#include "contract/reason.h"
#include "google/protobuf/message.h"

namespace tensorkv {
namespace {

uint64_t SizeOf(std::monostate) { return 0; }
uint64_t SizeOf(const InitReply& reply) {
  return reply.versions.size() * sizeof(Version);
}
uint64_t SizeOf(const PushReply& reply) {
  return reply.results.size() * sizeof(PushResult);
}
uint64_t SizeOf(const google::protobuf::Message& reply) {
  return reply.SpaceUsedLong();
}

uint64_t ReasonBytes(const absl::Status& status) {
  const absl::optional<absl::Cord> reason =
      status.GetPayload(kErrorInfoTypeUrl);
  return reason ? reason->size() : 0;
}

}  // namespace

uint64_t SizeOf(const CallAnswer& answer) {
  if (!answer.ok()) {
    return answer.status().message().size() + ReasonBytes(answer.status());
  }
  return std::visit([](const auto& reply) { return SizeOf(reply); }, *answer);
}

CallAnswer Limited(const CallAnswer& answer, uint64_t max_bytes) {
  if (answer.ok() || SizeOf(answer) <= max_bytes) return answer;
  const absl::Status& status = answer.status();
  const uint64_t headroom =
      max_bytes - std::min(max_bytes, ReasonBytes(status));
  absl::Status limited(status.code(), Utf8Prefix(status.message(), headroom));
  if (absl::optional<absl::Cord> reason =
          status.GetPayload(kErrorInfoTypeUrl)) {
    limited.SetPayload(kErrorInfoTypeUrl, *std::move(reason));
  }
  return limited;
}

}  // namespace tensorkv

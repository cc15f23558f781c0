#include "service/mirror/mirror_group.h"

#include "xxhash.h"

namespace tensorkv {

void SetFailed(v1::RoundOutcome& outcome, const absl::Status& status) {
  outcome.set_state(v1::RoundOutcome::FAILED);
  outcome.set_code(static_cast<int>(status.code()));
  outcome.set_message(std::string(status.message()));
}

absl::Status StatusOf(const v1::RoundOutcome& outcome) {
  const auto code = static_cast<absl::StatusCode>(outcome.code());
  return absl::Status(
      code == absl::StatusCode::kOk ? absl::StatusCode::kInternal : code,
      outcome.message());
}

uint64_t MirrorGroup::id() const {
  uint64_t id = 0;
  for (const std::string& server : servers) {
    id = XXH3_64bits_withSeed(server.data(), server.size(), id);
  }
  return id;
}

}  // namespace tensorkv

#include "service/mirror/mirror_group.h"

#include "xxhash.h"

namespace tensorkv {

void SetFailed(mirror::v1::Outcome& outcome, const absl::Status& status) {
  outcome.set_state(mirror::v1::Outcome::FAILED);
  outcome.set_code(static_cast<int>(status.code()));
  outcome.set_message(std::string(status.message()));
}

absl::Status StatusOf(const mirror::v1::Outcome& outcome) {
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

MirrorRequest MirrorGroup::NewRequest() const {
  MirrorRequest request;
  request.set_group(id());
  request.set_from(own);
  return request;
}

}  // namespace tensorkv

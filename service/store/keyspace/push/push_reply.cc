#include "service/store/keyspace/push/push_reply.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/pull/pull_cast.h"
#include "service/store/keyspace/push/push_copies.h"

namespace tensorkv {
namespace {

// Returns the bytes of the values as the caller wants them.
uint64_t ReplyBytes(const EntriesByKey& entries, DType dtype) {
  uint64_t bytes = 0;
  for (const EntriesByKey::KeyOfEntry& entry : entries.keys) {
    bytes += dtype == DType::kUnknown
                 ? entry.key->value_bytes()
                 : entry.key->num_elements() * SizeOf(dtype);
  }
  return bytes;
}

// Returns which of so many bytes exceed those of the call's tensors, which are
// free again when the push has taken effect: a reply must not fail then.
uint64_t BytesBeyondTensors(const NamespaceState& state,
                            const PushRequest& request, uint64_t bytes) {
  const uint64_t freed_bytes = PushCopies::BytesFreedOnHost(state, request);
  return bytes - std::min(bytes, freed_bytes);
}

// The device converts the values. What copies of the call's tensors take there
// is free by then.
absl::Status CheckCasts(const NamespaceState& state, const PushRequest& request,
                        const EntriesByKey& entries, DType dtype) {
  RETURN_IF_ERROR(CheckCast(dtype));
  uint64_t cast_bytes = 0;
  for (const EntriesByKey::KeyOfEntry& entry : entries.keys) {
    const StoredKey& key = *entry.key;
    RETURN_IF_ERROR(CheckCast(dtype, key));
    if (key.dtype() == dtype) continue;
    cast_bytes += key.num_elements() * SizeOf(dtype);
  }
  if (state.tensor_placement->copies()) {
    cast_bytes -= std::min(cast_bytes, PushCopies::BytesOf(state, request));
  } else {
    cast_bytes = BytesBeyondTensors(state, request, cast_bytes);
  }
  return state.memory.CheckHeadroom({.device = cast_bytes});
}

}  // namespace

absl::Status CheckReply(const NamespaceState& state, const PushRequest& request,
                        const EntriesByKey& entries, DType dtype,
                        uint64_t max_bytes) {
  if (dtype != DType::kUnknown) {
    RETURN_IF_ERROR(CheckCasts(state, request, entries, dtype));
  }
  const uint64_t bytes = ReplyBytes(entries, dtype);
  if (bytes <= max_bytes) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "values of the reply: expected at most ", max_bytes, " bytes, got ",
          bytes, "; push and pull fewer keys in one call")),
      Reason::kReplyTooLarge, {{"needed", bytes}, {"available", max_bytes}});
}

// The values are copied for the reply.
uint64_t BytesForReply(const NamespaceState& state, const PushRequest& request,
                       const EntriesByKey& entries, DType dtype) {
  return BytesBeyondTensors(state, request,
                            SumOfBytes(ReplyBytes(entries, dtype),
                                       entries.keys.size() * kBufferAlignment));
}

}  // namespace tensorkv

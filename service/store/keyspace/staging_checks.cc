#include "service/store/keyspace/staging_checks.h"

#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "base/status_macros.h"
#include "service/store/keyspace/key_creation.h"
#include "service/store/keyspace/push_admission.h"
#include "service/store/keyspace/staged_tensors.h"

namespace tensorkv {
namespace {

// Whether the call has been made, or is being made, as far as one knows before
// its turn. Errors: those of CallWindow::Knows.
absl::StatusOr<bool> IsRepeat(const NamespaceState& state, const Caller& caller,
                              const std::optional<CallId>& call_id) {
  if (!call_id) return false;
  return state.calls->Knows(caller, *call_id);
}

// Whether there is room for staging and, unless the call was made before, for
// the bytes that `check` finds it to need.
absl::Status CheckUnlessRepeat(
    const NamespaceState& state, const Caller& caller,
    const std::optional<CallId>& call_id, uint64_t staging_bytes,
    absl::FunctionRef<absl::StatusOr<BytesNeeded>()> check) {
  ASSIGN_OR_RETURN(bool is_repeat, IsRepeat(state, caller, call_id));
  BytesNeeded needed;
  if (!is_repeat) {
    absl::StatusOr<BytesNeeded> bytes = check();
    // What speaks against it may be that it has been made meanwhile.
    if (!bytes.ok()) {
      ASSIGN_OR_RETURN(is_repeat, IsRepeat(state, caller, call_id));
    }
    if (!is_repeat) {
      RETURN_IF_ERROR(bytes.status());
      needed = *std::move(bytes);
    }
  }
  needed.host = SumOfBytes(needed.host, staging_bytes);
  return state.memory.CheckRoom(needed);
}

}  // namespace

absl::Status CheckInit(const NamespaceState& state, const InitRequest& request,
                       const Caller& caller) {
  RETURN_IF_ERROR(CheckFields(state, request));
  StagingLayout staging;
  for (const InitEntry& entry : request.entries) {
    if (!entry.tensor.has_data()) staging.Add(entry.tensor.size_bytes());
  }
  return CheckUnlessRepeat(state, caller, request.call_id,
                           staging.total_bytes(),
                           [&] { return BytesToInit(state, request); });
}

absl::Status CheckPush(NamespaceState& state, const PushRequest& request,
                       const Caller& caller) {
  RETURN_IF_ERROR(CheckFields(state, request));
  StagingLayout staging;
  for (const PushEntry& entry : request.entries) {
    if (!entry.skip && !entry.tensor.has_data()) {
      staging.Add(entry.tensor.size_bytes());
    }
  }
  return CheckUnlessRepeat(state, caller, request.call_id,
                           staging.total_bytes(),
                           [&] { return BytesToPush(state, request); });
}

}  // namespace tensorkv

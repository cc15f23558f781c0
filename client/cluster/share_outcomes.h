// Says what follows from how the shares of a call have ended. Pure functions,
// thread-safe.

#ifndef TENSORKV_CLIENT_CLUSTER_SHARE_OUTCOMES_H_
#define TENSORKV_CLIENT_CLUSTER_SHARE_OUTCOMES_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "contract/call_fields.h"
#include "contract/requests.h"

namespace tensorkv {

// Returns whether the call was refused because its keys are not at that server,
// or the server was removed from the cluster (WRONG_SERVER).
bool IsAtWrongServer(const absl::Status& status);

// Returns whether the call was refused because another namespace has the name
// by now (NAMESPACE_REPLACED).
bool IsOfFormerNamespace(const absl::Status& status);

// Returns whether the server has no such snapshot, or no share of it.
bool IsOfNoSnapshot(const absl::Status& status);

// Returns the newest version of the placement that errors of WRONG_SERVER name;
// 0 if none does.
uint64_t VersionToldBy(absl::Span<const absl::Status> outcomes);

// Returns whether a push, or a share of one, that has ended with `status` was,
// or may have been, applied.
bool MayHaveEffect(const absl::Status& status);

// Returns whether the push of such a request may have been applied although the
// call ended so. A PushPull may lack only what it reads: its keys, or memory
// for their values.
template <typename Request>
bool MayHavePushed(const absl::Status& status) {
  if (MayHaveEffect(status)) return true;
  return std::is_same_v<Request, PushPullRequest> &&
         (absl::IsResourceExhausted(status) || absl::IsNotFound(status));
}

// Marks the error of a call no share of which was, or may have been, applied,
// so that HadNoEffect tells it to whoever may make the call again in another
// form. ClearEffectMark removes the mark before others see the error.
absl::Status WithoutEffect(absl::Status status);
bool HadNoEffect(const absl::Status& status);
void ClearEffectMark(absl::Status& status);

// Bounds the client ids that servers take.
inline constexpr size_t kMaxClientIdBytes = 64;

// Returns an id for a call that is made again in another form: a server may
// have had the call under its own id. Calls of other ids, and of other markers,
// have other ids. A client id too long for the marker is replaced by its
// digest.
CallId DerivedCallId(const CallId& id, absl::string_view marker);

// Gives a call that has an id the one that is derived for this attempt: a
// server may have had an earlier attempt under the call's own id, with other
// entries or epochs. Attempt 0 keeps the call's own. Each kind of attempts has
// its marker.
template <typename Request>
void NameAttempt(absl::string_view marker, int attempt, Request& request) {
  if constexpr (kHasCallId<Request>) {
    const std::optional<CallId> id = CallIdIn(request);
    if (!id || attempt == 0) return;
    SetCallId(DerivedCallId(*id, absl::StrCat(marker, attempt)), request);
  }
}

// Returns whether a push was refused for one of its deltas (BASE_CHANGED,
// DELTA_MALFORMED).
bool IsOfDelta(const absl::Status& status);

// Returns whether workers push again after such an error, once they have joined
// again if need be.
bool IsPushedAgain(const absl::Status& status);

// Returns whether the answers of other servers are of no use after such an
// error: the caller has to join again first, or would wait for a worker that
// has left.
bool EndsTheCall(const absl::Status& status);

// Returns whether the namespace may be of MODE_ASYNC, where nobody can promise
// that a step is applied once; true if the mode is not known.
bool MayBeAsync(Mode mode);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_SHARE_OUTCOMES_H_

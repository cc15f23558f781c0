// Push: from the call to its admission.

#include "service/store/keyspace/push/push_call.h"

#include <algorithm>
#include <utility>

#include "service/store/keyspace/push/push_admission.h"
#include "service/store/keyspace/push/push_check.h"
#include "service/store/keyspace/push/pushed_deltas.h"
#include "service/store/keyspace/push/waiting_push.h"

namespace tensorkv {
namespace {

// Returns how many bytes of an entry are read before it takes effect. The guard
// decodes.
uint64_t BytesToRead(const PushEntry& entry, bool is_guarded) {
  if (BringsNothing(entry)) return 0;
  if (!is_guarded || !entry.encoding || HasValues(entry.encoding->packing())) {
    return entry.tensor.size_bytes();
  }
  return entry.encoding->packing().num_elements * SizeOf(entry.dtype());
}

// Returns whether a push is not for the thread that it comes on: it is large,
// and begins with copies to memory from which the device takes it, with a look
// at each element for the guard, or with one at each index and scale of what is
// encoded.
bool TakesLong(const NamespaceState& state, const PushRequest& request) {
  const bool is_guarded = state.is_guarded;
  if (!is_guarded && !CopiesHere(state, request) &&
      std::none_of(
          request.entries.begin(), request.entries.end(),
          [](const PushEntry& entry) { return bool{entry.encoding}; })) {
    return false;
  }
  uint64_t bytes = 0;
  for (const PushEntry& entry : request.entries) {
    bytes = SumOfBytes(bytes, BytesToRead(entry, is_guarded));
  }
  return bytes > kMaxBytesInline;
}

// Makes a push whose fields are right and that need not wait for other workers.
// What it has not used of its reservations has gone when the transaction ends,
// and anybody hears of the end.
void Admit(NamespaceState& state, PushCall call) {
  const auto queued = MakeRefCounted<QueuedCall>();
  queued->done = std::move(call.done);
  queued->is_followed = call.pull != nullptr;
  Transaction transaction(state, std::defer_lock);
  const absl::Status status =
      PushAdmission(transaction, std::move(call), queued).Run();
  if (!status.ok()) std::move(queued->done)(status);
}

// A pull has no place for the tokens of values, nor for values that may be
// refused as their bases have changed.
absl::Status CheckWithPull(const PushCall& call) {
  if (call.request.with_tokens) {
    return absl::InvalidArgumentError(
        "with_tokens: expected none in a PushPull, got one");
  }
  if (!call.has_deltas) return absl::OkStatus();
  return absl::InvalidArgumentError("delta: expected none in a PushPull");
}

void PushHere(NamespaceState& state, PushCall call) {
  absl::Status status = CheckFields(state, call.request);
  if (status.ok() && call.pull != nullptr) {
    status = CheckWithPull(call);
  }
  if (!status.ok()) return std::move(call.done)(std::move(status));
  if (MustWaitForOthers(state, call.request)) {
    return ParkPush(state, std::move(call));
  }
  if (!call.has_deltas) return Admit(state, std::move(call));
  DecodeDeltas(state, std::move(call),
               [&state](PushCall whole) { Admit(state, std::move(whole)); });
}

}  // namespace

void StartPush(NamespaceState& state, PushCall call) {
  call.has_deltas = HasDeltas(call.request);
  // A delta of some bytes may stand for any number.
  if (!call.has_deltas && !TakesLong(state, call.request)) {
    return PushHere(state, std::move(call));
  }
  PushOnPool(state, std::move(call));
}

void PushOnPool(NamespaceState& state, PushCall call) {
  const absl::Duration end = state.Now() + call.context.timeout;
  state.Run([state = state.shared_from_this(),
             share = call.context.share.lock(), end,
             call = std::move(call)]() mutable {
    call.context.timeout = end - state->Now();
    PushHere(*state, std::move(call));
  });
}

void Namespace::Push(PushRequest request, CallContext context,
                     ReplyCallback<PushReply> done) {
  StartPush(*state_, {.request = std::move(request),
                      .context = std::move(context),
                      .done = std::move(done)});
}

void Namespace::Push(PushRequest request, CallContext context,
                     PullRequest* pull, ReplyCallback<PushReply> done) {
  StartPush(*state_, {.request = std::move(request),
                      .context = std::move(context),
                      .pull = pull,
                      .done = std::move(done)});
}

}  // namespace tensorkv

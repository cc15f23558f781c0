// A call about a snapshot, for which it may wait.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_CALL_AT_SNAPSHOT_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_CALL_AT_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/snapshot_references.h"
#include "service/store/keyspace/snapshots/snapshot_reference.h"
#include "service/store/keyspace/snapshots/snapshot_terms.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/keyspace/waits.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// How much a call asks for: the keys that it names, and the bytes of its
// request that nothing else counts.
struct RequestSize {
  size_t num_keys = 0;
  uint64_t bytes = 0;
};

// One call from its start to its answer. Guarded by the namespace's mutex.
template <typename Reply>
class CallAtSnapshot : public WaitingCall {
 public:
  // Returns the reply, of a snapshot that is ready, with the mutex held.
  using Read =
      absl::AnyInvocable<absl::StatusOr<Reply>(NamedSnapshot& snapshot)>;

  CallAtSnapshot(NamespaceState& state, SnapshotReference reference,
                 CallContext context, Read read, ReplyCallback<Reply> done,
                 RequestSize size = {})
      : WaitingCall(std::move(context), state.Now()),
        state_(state),
        reference_(std::move(reference)),
        size_(size),
        read_(std::move(read)),
        done_(std::move(done)) {
    reason = WaitReason::kSnapshot;
    topic = SnapshotTopic(reference_.series());
  }

  bool CanEnd() override {
    const absl::StatusOr<NamedSnapshot*> found =
        FindSnapshot(state_, reference_);
    if (found.ok() && *found == nullptr) return false;
    if (found.ok()) {
      answer_ = read_(**found);
    } else {
      answer_ = found.status();
    }
    return true;
  }
  absl::Status Missing() const override {
    return MissingSnapshot(state_, reference_);
  }
  void Fail(const absl::Status& status) override { answer_ = status; }
  uint64_t size_bytes() const override { return kOverheadBytes + size_.bytes; }
  void Send() override {
    read_ = nullptr;
    SendOnce(std::move(done_), std::move(answer_));
  }
  bool is_slow_to_send() const override {
    return size_.num_keys > kKeysPerLock;
  }

 protected:
  NamespaceState& state_;
  const SnapshotReference reference_;
  const RequestSize size_;
  Read read_;
  ReplyCallback<Reply> done_;
  absl::StatusOr<Reply> answer_;
};

// Answers with what `read` returns once the snapshot is there. Errors:
// InvalidArgument, those of FindSnapshot and `read` · DeadlineExceeded
// (WAIT_ENDED).
template <typename Reply>
void StartAtSnapshot(NamespaceState& state, const SnapshotReference& reference,
                     CallContext context,
                     typename CallAtSnapshot<Reply>::Read read,
                     ReplyCallback<Reply> done, RequestSize size = {}) {
  absl::Status status = CheckReference(reference);
  if (!status.ok()) return std::move(done)(std::move(status));
  StartCall(state, std::make_shared<CallAtSnapshot<Reply>>(
                       state, reference, std::move(context), std::move(read),
                       std::move(done), size));
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_CALL_AT_SNAPSHOT_H_

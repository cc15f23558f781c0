#include "service/store/keyspace/pull/changes_reply.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "service/store/keyspace/pull/delta_queue.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds what a value of a reply that waits takes besides its elements, with
// its token and its place among those who wait.
constexpr uint64_t kWaitingValueBytes = 512;

// One reply from what was read to the answer. Deltas come on any threads.
class ChangesReply final : public DeltaTaker,
                           public std::enable_shared_from_this<ChangesReply> {
 public:
  ChangesReply(NamespaceState& state, ReplyTerms terms, PullReply reply,
               ReplyCallback<PullReply> done, Reservation reservation)
      : state_(state.shared_from_this()), reservation_(std::move(reservation)) {
    open_.emplace(std::move(terms), std::move(reply), std::move(done));
  }

  void Run(std::vector<HeldValues::Base> bases) {
    std::shared_ptr<Cancellation> cancellation;
    std::vector<Tensor> values;
    values.reserve(bases.size());
    {
      MutexLock lock(&mutex_);
      cancellation = open_->terms.cancellation;
      for (const HeldValues::Base& base : bases) {
        values.push_back(open_->reply.values[base.index].tensor);
      }
      open_->num_awaited = bases.size() + 1;
    }
    const uint64_t ticket =
        cancellation == nullptr ? 0 : cancellation->TakeTicket();
    AskFor(std::move(bases), std::move(values));
    Take(0, nullptr);
    Listen();
    if (cancellation == nullptr) return;
    cancellation->OnCancel(ticket, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self) self->End(absl::CancelledError("the caller has given up"));
    });
  }

  bool IsWaiting() override {
    CallContext context;
    {
      MutexLock lock(&mutex_);
      if (!open_) return false;
      context.cancellation = open_->terms.cancellation;
    }
    absl::Status status = CheckIsWanted(*state_, context);
    if (status.ok()) return true;
    End(std::move(status));
    return false;
  }

  void Take(size_t index, const CachedDeltaPtr& delta) override {
    std::optional<Open> ended;
    {
      MutexLock lock(&mutex_);
      if (!open_) return;
      if (delta) Put(*delta, open_->reply.values[index]);
      if (--open_->num_awaited > 0) return;
      ended.swap(open_);
    }
    CancelAlarm(*ended);
    state_->changes_sent.Count(ended->reply);
    SendReply(*state_, std::move(ended->terms), std::move(ended->reply),
              std::move(ended->done));
  }

 private:
  // What it has until it has answered.
  struct Open {
    Open(ReplyTerms terms, PullReply reply, ReplyCallback<PullReply> done)
        : terms(std::move(terms)),
          reply(std::move(reply)),
          done(std::move(done)) {}

    ReplyTerms terms;
    PullReply reply;
    ReplyCallback<PullReply> done;
    // Counts Run too, until that has asked for all.
    size_t num_awaited = 0;
    // 0 until it waits.
    Alarms::Id alarm = 0;
  };

  // Asks for the deltas from `bases` to `values`, and has those encoded that
  // are missing.
  void AskFor(std::vector<HeldValues::Base> bases, std::vector<Tensor> values) {
    DeltaQueue& deltas = *state_->environment.deltas;
    std::vector<std::unique_ptr<DeltaJob>> jobs;
    for (size_t i = 0; i < bases.size(); ++i) {
      HeldValues::Base& base = bases[i];
      CachedDeltaPtr delta;
      switch (
          deltas.cache().Get(base.id, shared_from_this(), base.index, &delta)) {
        case DeltaCache::Found::kMissing:
          jobs.push_back(std::make_unique<DeltaJob>(
              std::move(base.id), std::move(base.held), std::move(values[i]),
              &state_->device()));
          break;
        case DeltaCache::Found::kAwaited:
          break;
        case DeltaCache::Found::kThere:
        case DeltaCache::Found::kNoRoom:
          Take(base.index, delta);
      }
    }
    deltas.Push(std::move(jobs));
  }

  static void Put(const CachedDelta& delta, Value& value) {
    auto change = MakeRefCounted<ValueChange>();
    change->token = value.change->token;
    change->delta = Delta{.digest = delta.digest};
    value.tensor = delta.bytes;
    value.change = std::move(change);
  }

  // Has the reply end with its deadline, if it waits.
  void Listen() {
    MutexLock lock(&mutex_);
    if (!open_ || open_->terms.deadline == absl::InfiniteDuration()) return;
    open_->alarm = state_->environment.alarms->Schedule(
        open_->terms.deadline, [weak = weak_from_this()] {
          const auto self = weak.lock();
          if (self == nullptr) return;
          self->End(absl::DeadlineExceededError(absl::StrCat(
              "namespace ", Quoted(self->state_->name),
              ": changes of the values that were pulled are being encoded")));
        });
  }

  // Answers with an error, unless it has answered.
  void End(absl::Status status) {
    std::optional<Open> ended;
    {
      MutexLock lock(&mutex_);
      if (!open_) return;
      ended.swap(open_);
    }
    CancelAlarm(*ended);
    ReplyCallback<PullReply> done = std::move(ended->done);
    ended.reset();
    std::move(done)(std::move(status));
  }

  void CancelAlarm(const Open& ended) const {
    if (ended.alarm != 0) state_->environment.alarms->Cancel(ended.alarm);
  }

  const std::shared_ptr<NamespaceState> state_;
  // Counts what it takes, also of those who have not noticed that it has ended.
  const Reservation reservation_;
  Mutex mutex_;
  // Nothing once it has answered.
  std::optional<Open> open_ ABSL_GUARDED_BY(mutex_);
};

// Returns how many bytes the values have that go whole, whatever the deltas
// take.
uint64_t LeastBytes(const ReplyTerms& terms, const PullReply& reply,
                    const std::vector<HeldValues::Base>& bases) {
  const auto bytes_of = [&](const Value& value) {
    const Tensor& tensor = value.tensor;
    return tensor.num_elements() * SizeOf(CastOf(terms.dtype, tensor.dtype()));
  };
  uint64_t bytes = 0;
  for (const Value& value : reply.values) bytes += bytes_of(value);
  for (const HeldValues::Base& base : bases) {
    bytes -= bytes_of(reply.values[base.index]);
  }
  return bytes;
}

}  // namespace

void SendChanges(NamespaceState& state, ReplyTerms terms,
                 std::vector<HeldValues::Base> bases, PullReply reply,
                 ReplyCallback<PullReply> done) {
  absl::StatusOr<Reservation> reservation;
  if (!bases.empty() && LeastBytes(terms, reply, bases) <= terms.max_bytes) {
    reservation = state.environment.deltas->cache().Reserve(
        reply.values.size() * kWaitingValueBytes);
  }
  if (!reservation.ok()) {
    state.changes_sent.Count(reply);
    return SendReply(state, std::move(terms), std::move(reply),
                     std::move(done));
  }
  std::make_shared<ChangesReply>(state, std::move(terms), std::move(reply),
                                 std::move(done), *std::move(reservation))
      ->Run(std::move(bases));
}

}  // namespace tensorkv

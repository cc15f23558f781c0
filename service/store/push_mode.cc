#include "service/store/push_mode.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

constexpr uint32_t kDefaultMaxOpenRounds = 4;
// Bounds what a key's open rounds take besides their contributions.
constexpr uint32_t kMaxOpenRounds = 64;
constexpr absl::Duration kMaxQuorumGrace = absl::Hours(1);

PendingUpdate UpdateAtOnce(Contribution contribution, Reservation room) {
  PendingUpdate update;
  update.slots = std::move(contribution.slots);
  update.held = std::move(contribution.held);
  update.overhead = std::move(contribution.overhead);
  update.room = std::move(room);
  return update;
}

absl::Status CheckHasWorkerAndStep(const PushRequest& request,
                                   absl::string_view mode) {
  if (!request.worker) {
    return absl::InvalidArgumentError(absl::StrCat(
        "push to a ", mode, " namespace: expected a worker, got none"));
  }
  if (request.step == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("push to a ", mode,
                     " namespace: expected a step of at least 1, got 0"));
  }
  return absl::OkStatus();
}

// Every contribution is an update of its own.
class AsyncMode : public PushMode {
 public:
  explicit AsyncMode(const WorkerGroup* workers) : workers_(*workers) {}

  void FillDefaults(NamespaceConfig&) const override {}

  bool applies_at_once() const override { return true; }

  absl::Status CheckPush(const PushRequest&) const override {
    return absl::OkStatus();
  }
  // Nobody needs to be a member; who says so must be one.
  absl::Status CheckWorker(const std::optional<Worker>& worker,
                           absl::Duration now) const override {
    if (!worker || worker->epoch == 0) return absl::OkStatus();
    return workers_.Check(*worker, now);
  }
  absl::Status CheckKey(const StoredKey&, const PushRequest&) const override {
    return absl::OkStatus();
  }
  bool NeedsRoom(const StoredKey&, const PushRequest&) const override {
    return true;
  }

  PendingUpdates Admit(StoredKey&, const PushRequest&,
                       Contribution contribution,
                       Reservation room) const override {
    PendingUpdates updates;
    if (!contribution.slots.empty()) {
      updates.push_back(UpdateAtOnce(std::move(contribution), std::move(room)));
    }
    return updates;
  }

  bool MustWait(const StoredKey&, const std::optional<Worker>&) const override {
    return false;
  }
  std::string DescribeWait(const StoredKey&, const std::optional<Worker>&,
                           absl::Duration) const override {
    return "";
  }
  Step StepOfJoiner() const override { return 0; }

 protected:
  const WorkerGroup& workers() const { return workers_; }

 private:
  const WorkerGroup& workers_;
};

// As async, but nobody runs too far ahead of the slowest worker.
class BoundedMode final : public AsyncMode {
 public:
  BoundedMode(const WorkerGroup* workers, uint32_t staleness)
      : AsyncMode(workers), staleness_(staleness) {}

  void FillDefaults(NamespaceConfig& config) const override {
    config.max_workers = std::max(config.max_workers, config.num_workers);
  }

  absl::Status CheckPush(const PushRequest& request) const override {
    return CheckHasWorkerAndStep(request, "bounded");
  }
  absl::Status CheckWorker(const std::optional<Worker>& worker,
                           absl::Duration now) const override {
    return worker ? workers().Check(*worker, now) : absl::OkStatus();
  }
  absl::Status CheckKey(const StoredKey& key,
                        const PushRequest& request) const override {
    RETURN_IF_ERROR(CheckStep(request));
    if (!key.HasContribution(*request.worker, request.step)) {
      return absl::OkStatus();
    }
    return absl::AlreadyExistsError(absl::StrCat(
        "step ", request.step, " of ", Quoted(key.name()), ": worker ",
        request.worker->rank, " has contributed already"));
  }

  absl::Status CheckStep(const PushRequest& request) const override {
    const Step reached = workers().step_of(request.worker->rank);
    if (request.step == reached || request.step == reached + 1) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "step of worker ", request.worker->rank, ": expected ", reached,
        ", which it has reached, or the next, got ", request.step));
  }

  Step StepToAwait(Step step) const override {
    return step > staleness_ ? step - staleness_ : 0;
  }
  Step StepOfJoiner() const override { return workers().slowest_step(); }

 private:
  const uint32_t staleness_;
};

// Contributions become one update when their round closes.
class SyncMode final : public PushMode {
 public:
  explicit SyncMode(const RoundPolicy& policy) : policy_(policy) {}

  void FillDefaults(NamespaceConfig& config) const override {
    config.max_workers = std::max(config.max_workers, config.num_workers);
    config.max_open_rounds = policy_.max_open;
  }

  bool applies_at_once() const override { return false; }

  absl::Status CheckPush(const PushRequest& request) const override {
    return CheckHasWorkerAndStep(request, "sync");
  }
  absl::Status CheckWorker(const std::optional<Worker>& worker,
                           absl::Duration now) const override {
    return worker ? policy_.workers->Check(*worker, now) : absl::OkStatus();
  }

  absl::Status CheckKey(const StoredKey& key,
                        const PushRequest& request) const override {
    if (key.rounds) {
      return key.rounds->Check(key.name(), request.worker->rank, request.step);
    }
    return Rounds(&policy_).Check(key.name(), request.worker->rank,
                                  request.step);
  }

  bool NeedsRoom(const StoredKey& key,
                 const PushRequest& request) const override {
    return !key.rounds || key.rounds->OpensRound(request.step);
  }

  PendingUpdates Admit(StoredKey& key, const PushRequest& request,
                       Contribution contribution,
                       Reservation room) const override {
    if (!key.rounds) key.rounds = std::make_unique<Rounds>(&policy_);
    return UpdatesOf(key.rounds->Add(request.worker->rank, request.step,
                                     std::move(contribution), std::move(room)));
  }

  // A worker waits for the rounds it has contributed to, until they have been
  // applied.
  bool MustWait(const StoredKey& key,
                const std::optional<Worker>& worker) const override {
    if (!worker) return false;
    return key.is_updating || key.has_pending() ||
           (key.rounds && key.rounds->HasOpenRoundOf(worker->rank));
  }

  std::string DescribeWait(const StoredKey& key,
                           const std::optional<Worker>& worker,
                           absl::Duration now) const override {
    if (key.rounds && key.rounds->HasOpenRoundOf(worker->rank)) {
      return key.rounds->DescribeOpenRoundOf(worker->rank, key.name(), now);
    }
    return absl::StrCat("key ", Quoted(key.name()),
                        ": its update is under way");
  }
  Step StepOfJoiner() const override { return policy_.workers->max_step(); }

 private:
  const RoundPolicy policy_;
};

// A field that is set although the mode does not use it would promise what does
// not happen.
absl::Status CheckFieldsAreUsed(const NamespaceConfig& config) {
  struct Field {
    absl::string_view name;
    bool is_set;
    bool is_used;
  };
  const bool is_sync = config.mode == Mode::kSync;
  const bool is_bounded = config.mode == Mode::kBounded;
  const bool is_group = is_sync || is_bounded;
  const Field fields[] = {
      {"num_workers", config.num_workers != 0, is_group},
      {"max_workers", config.max_workers != 0, is_group},
      {"staleness", config.staleness != 0, is_bounded},
      {"on_worker_loss", config.on_worker_loss != OnWorkerLoss::kFail,
       is_group},
      {"rescale_partial_rounds", config.rescale_partial_rounds, is_sync},
      {"quorum", config.quorum != 0, is_sync},
      {"quorum_grace", config.quorum_grace != absl::ZeroDuration(), is_sync},
      {"max_open_rounds", config.max_open_rounds != 0, is_sync}};
  for (const Field& field : fields) {
    if (!field.is_set || field.is_used) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field.name, ": expected none in a namespace of mode ",
                     is_sync      ? "sync"
                     : is_bounded ? "bounded"
                                  : "async",
                     ", which does not use it, got one"));
  }
  return absl::OkStatus();
}

absl::Status CheckGroup(const NamespaceConfig& config) {
  if (config.num_workers == 0 || config.num_workers > kMaxWorkers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_workers of a sync or bounded namespace: expected 1 to ",
        kMaxWorkers, ", got ", config.num_workers));
  }
  if (config.max_workers > kMaxWorkers ||
      (config.max_workers > 0 && config.max_workers < config.num_workers)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_workers: expected num_workers, which is ", config.num_workers,
        ", to ", kMaxWorkers, ", got ", config.max_workers));
  }
  return absl::OkStatus();
}

absl::Status CheckRounds(const NamespaceConfig& config) {
  if (config.max_open_rounds > kMaxOpenRounds) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_open_rounds: expected at most ", kMaxOpenRounds,
                     ", got ", config.max_open_rounds));
  }
  const uint32_t most = std::max(config.num_workers, config.max_workers);
  if (config.quorum > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "quorum: expected at most ", most, " workers, got ", config.quorum));
  }
  if (config.quorum_grace < absl::ZeroDuration() ||
      config.quorum_grace > kMaxQuorumGrace) {
    return absl::InvalidArgumentError(absl::StrCat(
        "quorum_grace: expected 0 to ", absl::FormatDuration(kMaxQuorumGrace),
        ", got ", absl::FormatDuration(config.quorum_grace)));
  }
  return absl::OkStatus();
}

}  // namespace

PendingUpdates UpdatesOf(ClosedRounds rounds) {
  PendingUpdates updates;
  for (ClosedRound& closed : rounds) {
    PendingUpdate& update = updates.emplace_back();
    update.round = closed.step;
    update.ranks = std::move(closed.ranks);
    update.slots = std::move(closed.slots);
    update.held = std::move(closed.held);
    update.overhead = std::move(closed.overhead);
    update.room = std::move(closed.room);
  }
  return updates;
}

absl::StatusOr<std::unique_ptr<PushMode>> PushMode::Create(
    const NamespaceConfig& config, const WorkerGroup* workers) {
  RETURN_IF_ERROR(CheckFieldsAreUsed(config));
  if (config.mode == Mode::kAsync) return std::make_unique<AsyncMode>(workers);
  RETURN_IF_ERROR(CheckGroup(config));
  if (config.mode == Mode::kBounded) {
    return std::make_unique<BoundedMode>(workers, config.staleness);
  }
  RETURN_IF_ERROR(CheckRounds(config));
  return std::make_unique<SyncMode>(RoundPolicy{
      .workers = workers,
      .max_open = config.max_open_rounds == 0 ? kDefaultMaxOpenRounds
                                              : config.max_open_rounds,
      .quorum = config.quorum,
      .rescales = config.rescale_partial_rounds});
}

}  // namespace tensorkv

#include "service/store/keyspace/push/push_mode.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"
#include "xxhash.h"

namespace tensorkv {
namespace {

constexpr uint32_t kDefaultMaxOpenRounds = 4;

PendingUpdate UpdateAtOnce(Contribution contribution,
                           Reservation value_reservation) {
  PendingUpdate update;
  update.slots = std::move(contribution.slots);
  update.tensor_reservation = std::move(contribution.tensor_reservation);
  update.overhead = std::move(contribution.overhead);
  update.value_reservation = std::move(value_reservation);
  return update;
}

// Returns the largest step rather than one that wraps.
Step Plus(Step step, uint64_t number) {
  return step > UINT64_MAX - number ? UINT64_MAX : step + number;
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

// REQUIRES: the request has a worker.
Contributor ContributorOf(const PushRequest& request) {
  Contributor by = {.rank = request.worker->rank};
  if (request.worker->epoch != 0) {
    by.identity = Contributor::kMember;
  } else if (request.call_id && !request.call_id->client_id.empty()) {
    // The identity is the same after every start: a checkpoint has it.
    const std::string& id = request.call_id->client_id;
    by.identity = std::max<uint64_t>(XXH3_64bits(id.data(), id.size()),
                                     Contributor::kMember + 1);
  }
  return by;
}

absl::Status StepGap(const PushRequest& request, absl::string_view expected) {
  absl::string_view key;
  if (!request.entries.empty()) key = request.entries[0].key;
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        "step of worker ", request.worker->rank, ": expected ",
                        expected, ", got ", request.step)),
                    Reason::kStepGap, {{"key", key}, {"step", request.step}});
}

// Every contribution is an update of its own.
class AsyncMode : public PushMode {
 public:
  explicit AsyncMode(const WorkerGroup* workers) : PushMode(workers) {}

  void FillDefaults(NamespaceConfig&) const override {}

  bool applies_at_once() const override { return true; }
  bool forgets_contributions() const override { return true; }

  // There is no step after the largest, which Join would have to tell.
  absl::Status CheckPush(const PushRequest& request) const override {
    if (request.step != UINT64_MAX) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "step: expected at most ", UINT64_MAX - 1, ", got ", request.step));
  }
  // Nobody needs to be a member; who says so must be one.
  absl::Status CheckWorker(const std::optional<Worker>& worker,
                           absl::Duration now) const override {
    if (!worker || worker->epoch == 0) return absl::OkStatus();
    return workers().Check(*worker, now);
  }
  absl::StatusOr<std::optional<PushResult>> CheckKey(
      const StoredKey&, const PushRequest&) const override {
    return std::nullopt;
  }
  bool NeedsReservation(const StoredKey&, const PushRequest&) const override {
    return true;
  }

  PushResult ResultOf(const StoredKey& key, const PushRequest&) const override {
    return {.version = key.version};
  }
  // A step that nobody has joined for says nothing.
  bool CountsStep(const PushRequest& request) const override {
    return PushMode::CountsStep(request) && request.worker->epoch != 0;
  }
  PendingUpdates Add(StoredKey&, const PushRequest&, Contribution contribution,
                     Reservation value_reservation) const override {
    PendingUpdates updates;
    if (!contribution.slots.empty()) {
      updates.push_back(
          UpdateAtOnce(std::move(contribution), std::move(value_reservation)));
    }
    return updates;
  }

  Step StepOfJoiner() const override { return 0; }
  // Nothing here tells that a push was made before.
  Step NextStepOf(uint32_t rank) const override {
    return Plus(workers().step_of(rank), 1);
  }
};

// BoundedMode is async, but nobody runs too far ahead of the slowest worker.
class BoundedMode final : public AsyncMode {
 public:
  BoundedMode(const WorkerGroup* workers, uint32_t staleness)
      : AsyncMode(workers), staleness_(staleness) {}

  bool forgets_contributions() const override { return false; }

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
  absl::StatusOr<std::optional<PushResult>> CheckKey(
      const StoredKey& key, const PushRequest& request) const override {
    const Contributor by = ContributorOf(request);
    const auto contributor = key.FindContributor(by.rank, request.step);
    if (!contributor) {
      RETURN_IF_ERROR(CheckStep(request));
      return std::nullopt;
    }
    if (contributor->IsSame(by)) {
      return PushResult{.version = key.version, .repeated = true};
    }
    return WithReason(
        absl::AlreadyExistsError(absl::StrCat(
            "step ", request.step, " of ", Quoted(key.name()),
            ": somebody else has contributed as worker ", by.rank, " already")),
        Reason::kContributionExists,
        {{"key", key.name()}, {"step", request.step}, {"rank", by.rank}});
  }

  absl::Status CheckStep(const PushRequest& request) const override {
    const Step reached = workers().step_of(request.worker->rank);
    if (request.step == reached || request.step == Plus(reached, 1)) {
      return absl::OkStatus();
    }
    return StepGap(request, absl::StrCat(reached,
                                         ", which it has reached, or the "
                                         "next"));
  }

  uint64_t BytesToRecord(const StoredKey& key,
                         const PushRequest& request) const override {
    return key.BytesToRecord(request.worker->rank);
  }
  void Record(StoredKey& key, const PushRequest& request,
              Reservation overhead) const override {
    key.RecordContribution(ContributorOf(request), request.step,
                           std::move(overhead));
  }

  absl::Status Restore(const KeySnapshot& snapshot,
                       const RefPtr<BudgetAccount>& overhead,
                       StoredKey& key) const override {
    for (const ContributionSnapshot& each : snapshot.contributions) {
      ASSIGN_OR_RETURN(
          Reservation bytes,
          Reservation::Create(overhead, key.BytesToRecord(each.by.rank)));
      key.RecordContribution(each.by, each.step, std::move(bytes));
    }
    return absl::OkStatus();
  }

  bool CountsStep(const PushRequest& request) const override {
    return PushMode::CountsStep(request);
  }
  bool waits_for_slower() const override { return true; }
  Step AwaitedStep(Step step) const override {
    const Step awaited = step > staleness_ ? step - staleness_ : 0;
    return awaited > 0 && workers().slowest_step() < awaited ? awaited : 0;
  }
  Step StepOfJoiner() const override { return workers().max_step(); }
  Step NextStepOf(uint32_t rank) const override {
    return std::max(
        {workers().step_of(rank), workers().first_step_of(rank), Step{1}});
  }

 private:
  const uint32_t staleness_;
};

// Contributions become one update when their round closes.
class SyncMode final : public PushMode {
 public:
  // `policy` refers to `shared`.
  SyncMode(const RoundPolicy& policy, std::unique_ptr<SharedRounds> shared)
      : PushMode(policy.workers), shared_(std::move(shared)), policy_(policy) {}

  void FillDefaults(NamespaceConfig& config) const override {
    config.max_workers = std::max(config.max_workers, config.num_workers);
    config.max_open_rounds = policy_.max_open;
  }

  void Update(const NamespaceConfig& config) override {
    policy_.SetQuorum(config.quorum, workers().max_step());
    policy_.rescales = config.rescale_partial_rounds;
  }
  std::vector<FormerQuorum> former_quorums() const override {
    return policy_.former_quorums;
  }
  void RestoreQuorums(std::vector<FormerQuorum> former_quorums) override {
    policy_.RestoreFormer(std::move(former_quorums));
  }

  bool applies_at_once() const override { return false; }
  StepRecords* step_records() const override { return &shared_->records; }

  absl::Status CheckPush(const PushRequest& request) const override {
    RETURN_IF_ERROR(CheckHasWorkerAndStep(request, "sync"));
    return policy_.exchanges ? CheckIsForThisServer(request) : absl::OkStatus();
  }
  absl::Status CheckWorker(const std::optional<Worker>& worker,
                           absl::Duration now) const override {
    return worker ? workers().Check(*worker, now) : absl::OkStatus();
  }

  // One wrong step must not decide where everybody goes on.
  absl::Status CheckStep(const PushRequest& request) const override {
    const Step last = Plus(workers().max_step(), policy_.max_open);
    if (request.step <= last) return absl::OkStatus();
    return StepGap(request, absl::StrCat("at most ", last,
                                         ", which is max_open_rounds "
                                         "above what the group has reached"));
  }

  absl::StatusOr<std::optional<PushResult>> CheckKey(
      const StoredKey& key, const PushRequest& request) const override {
    RETURN_IF_ERROR(CheckStep(request));
    const auto check = [&](const Rounds& rounds) {
      return rounds.Check(key.name(), key.version, ContributorOf(request),
                          request.step);
    };
    ASSIGN_OR_RETURN(const std::optional<RoundOfContribution> round,
                     key.rounds ? check(*key.rounds) : check(Rounds(&policy_)));
    if (!round) return std::nullopt;
    return PushResult{
        .version = round->version, .step = round->step, .repeated = true};
  }

  uint64_t BytesToRecord(const StoredKey& key,
                         const PushRequest&) const override {
    return key.rounds ? 0 : Rounds::BytesFor(policy_);
  }
  void Record(StoredKey& key, const PushRequest&,
              Reservation overhead) const override {
    if (key.rounds) return;
    key.rounds =
        std::make_unique<Rounds>(&policy_, std::move(overhead), key.name());
  }

  absl::Status Restore(const KeySnapshot& snapshot,
                       const RefPtr<BudgetAccount>& overhead,
                       StoredKey& key) const override {
    if (snapshot.rounds.empty()) return absl::OkStatus();
    uint64_t num_late = 0;
    for (const AppliedRound& each : snapshot.rounds) {
      num_late += each.late.size();
    }
    ASSIGN_OR_RETURN(
        Reservation bytes,
        Reservation::Create(overhead, Rounds::BytesFor(policy_) +
                                          num_late * kContributorBytes));
    key.rounds =
        std::make_unique<Rounds>(&policy_, std::move(bytes), key.name());
    key.rounds->Restore(snapshot.rounds);
    return absl::OkStatus();
  }

  bool NeedsReservation(const StoredKey& key,
                        const PushRequest& request) const override {
    return !key.rounds || (key.rounds->OpensRound(request.step) &&
                           !key.rounds->IsClosed(request.step));
  }

  PushResult ResultOf(const StoredKey& key,
                      const PushRequest& request) const override {
    return {.step = key.rounds->HolderOf(request.step)};
  }
  PendingUpdates Add(StoredKey& key, const PushRequest& request,
                     Contribution contribution,
                     Reservation value_reservation) const override {
    return UpdatesOf(key.rounds->Add(ContributorOf(request), request.step,
                                     std::move(contribution),
                                     std::move(value_reservation)));
  }

  bool MustRepush(uint32_t rank) const override {
    return shared_->to_repush.Has(rank);
  }
  absl::Status CheckNothingToRepush(const StoredKey& key, uint32_t rank,
                                    Step last) const override {
    const Step end = last == UINT64_MAX ? last : last + 1;
    return key.rounds ? key.rounds->CheckNothingToRepush(key.name(), rank, end)
                      : absl::OkStatus();
  }

  // A worker waits for the rounds it has contributed to, until they have been
  // applied.
  bool MustWait(const StoredKey& key, uint32_t rank, Step last) const override {
    return key.rounds && key.rounds->Awaits(rank, last);
  }
  absl::Status CheckNobodyLeft(const StoredKey& key, uint32_t rank,
                               Step last) const override {
    return key.rounds ? key.rounds->CheckNobodyLeft(key.name(), rank, last)
                      : absl::OkStatus();
  }
  uint32_t NumContributions(const StoredKey& key, uint32_t rank,
                            Step last) const override {
    return key.rounds ? key.rounds->NumContributions(rank, last) : 0;
  }
  absl::Status DescribeWait(const StoredKey& key, uint32_t rank,
                            absl::Duration now) const override {
    return key.rounds->DescribeAwaited(rank, key.name(), now);
  }

  Step StepOfJoiner() const override { return workers().max_step(); }
  // Returns a step that may have been contributed to in part, which does no
  // harm when it is pushed again; only the worker knows which keys belong to a
  // step.
  Step NextStepOf(uint32_t rank) const override {
    const Step last = std::max(
        {workers().step_of(rank), workers().first_step_of(rank), Step{1}});
    // The rank may have gone back further, as keys that came from elsewhere
    // lack an earlier step.
    return std::min(last, shared_->to_repush.LowestOf(rank, last));
  }

 private:
  // Checks that the request, of a mirrored namespace, is for this server.
  absl::Status CheckIsForThisServer(const PushRequest& request) const {
    if (!workers().IsLocal(request.worker->rank)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "worker ", request.worker->rank,
          ": expected a push to its own server of the mirrored namespace, "
          "which is that at place rank mod n of the placement"));
    }
    for (const PushEntry& entry : request.entries) {
      if (entry.skip || !entry.rows) continue;
      return absl::UnimplementedError(absl::StrCat(
          "key ", Quoted(entry.key),
          ": expected a whole tensor in a mirrored namespace, got rows"));
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<SharedRounds> shared_;
  // Rounds refer to it.
  RoundPolicy policy_;
};

}  // namespace

absl::Status PushMode::CheckAllowsDType(Aggregation aggregation,
                                        absl::string_view key, DType dtype) {
  if (Adds(aggregation) || IsFloat(dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "key ", Quoted(key), ": expected a float dtype in a namespace whose ",
      "contributions are not summed, got ", NameOf(dtype)));
}

absl::Status PushMode::DescribeAwaited(Step step, absl::Duration now) const {
  return workers_.MissingError(absl::StrCat("step ", step),
                               workers_.NeededBelow(step), now);
}

PendingUpdates UpdatesOf(ClosedRounds rounds) {
  PendingUpdates updates;
  for (ClosedRound& closed : rounds) {
    PendingUpdate& update = updates.emplace_back();
    update.round = closed.step;
    update.slots = std::move(closed.slots);
    update.num_averaged = closed.num_averaged;
    update.total_weight = closed.total_weight;
    update.tensor_reservation = std::move(closed.tensor_reservation);
    update.overhead = std::move(closed.overhead);
    update.value_reservation = std::move(closed.value_reservation);
  }
  return updates;
}

absl::StatusOr<std::unique_ptr<PushMode>> PushMode::Create(
    const NamespaceConfig& config, const WorkerGroup* workers,
    const SnapshotRevisions* snapshots) {
  RETURN_IF_ERROR(CheckConfig(config));
  if (config.mode == Mode::kAsync) return std::make_unique<AsyncMode>(workers);
  if (config.mode == Mode::kBounded) {
    return std::make_unique<BoundedMode>(workers, config.staleness);
  }
  auto shared = std::make_unique<SharedRounds>();
  const RoundPolicy policy = {
      .workers = workers,
      .shared = shared.get(),
      .snapshots = snapshots,
      .max_open = config.max_open_rounds == 0 ? kDefaultMaxOpenRounds
                                              : config.max_open_rounds,
      .quorum = config.quorum,
      .rescales = config.rescale_partial_rounds,
      .aggregation = config.aggregation,
      .trim_fraction = config.trim_fraction,
      .sum_order = config.sum_order,
      .carries = config.late == Late::kCarry,
      .staleness_decay =
          config.staleness_decay == 0 ? 1 : config.staleness_decay,
      .exchanges = config.mirrored};
  return std::make_unique<SyncMode>(policy, std::move(shared));
}

}  // namespace tensorkv

#include "service/store/push_mode.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/names.h"
#include "service/store/worker_group.h"

namespace tensorkv {
namespace {

constexpr uint32_t kDefaultMaxOpenRounds = 4;
// Bounds what a key's open rounds take besides their contributions.
constexpr uint32_t kMaxOpenRounds = 64;

// Every contribution is an update of its own.
class AsyncMode final : public PushMode {
 public:
  void FillDefaults(NamespaceConfig& config) const override {
    config.num_workers = 0;
    config.max_open_rounds = 0;
  }

  absl::Status CheckPush(const PushRequest&) const override {
    return absl::OkStatus();
  }
  absl::Status CheckPull(const PullRequest&) const override {
    return absl::OkStatus();
  }
  absl::Status CheckKey(const StoredKey&, const PushRequest&) const override {
    return absl::OkStatus();
  }
  bool NeedsRoom(const StoredKey&, const PushRequest&) const override {
    return true;
  }

  std::optional<PendingUpdate> Admit(StoredKey&, const PushRequest&,
                                     Contribution contribution,
                                     Reservation room) const override {
    if (contribution.slots.empty()) return std::nullopt;
    PendingUpdate update;
    update.slots = std::move(contribution.slots);
    update.held = std::move(contribution.held);
    update.overhead = std::move(contribution.overhead);
    update.room = std::move(room);
    return update;
  }

  std::optional<Fold> BeginFold(StoredKey&, const PushRequest&) const override {
    return std::nullopt;
  }
  std::optional<PendingUpdate> EndFold(
      StoredKey&, Step, std::optional<Contribution>) const override {
    return std::nullopt;
  }

  bool MustWait(const StoredKey&, const std::optional<Worker>&) const override {
    return false;
  }
  std::string DescribeWait(const StoredKey&,
                           const std::optional<Worker>&) const override {
    return "";
  }
};

// Contributions become one update when their round closes.
class SyncMode final : public PushMode {
 public:
  SyncMode(uint32_t num_workers, uint32_t max_open_rounds)
      : num_workers_(num_workers), max_open_rounds_(max_open_rounds) {}

  void FillDefaults(NamespaceConfig& config) const override {
    config.max_open_rounds = max_open_rounds_;
  }

  absl::Status CheckPush(const PushRequest& request) const override {
    if (!request.worker) {
      return absl::InvalidArgumentError(
          "push to a sync namespace: expected a worker, got none");
    }
    if (request.step == 0) {
      return absl::InvalidArgumentError(
          "push to a sync namespace: expected a step of at least 1, got 0");
    }
    return CheckWorker(*request.worker);
  }

  absl::Status CheckPull(const PullRequest& request) const override {
    return request.worker ? CheckWorker(*request.worker) : absl::OkStatus();
  }

  absl::Status CheckKey(const StoredKey& key,
                        const PushRequest& request) const override {
    if (!key.rounds) return absl::OkStatus();
    return key.rounds->Check(key.name(), request.worker->rank, request.step);
  }

  bool NeedsRoom(const StoredKey& key,
                 const PushRequest& request) const override {
    return !key.rounds || key.rounds->OpensRound(request.step);
  }

  std::optional<PendingUpdate> Admit(StoredKey& key, const PushRequest& request,
                                     Contribution contribution,
                                     Reservation room) const override {
    if (!key.rounds) {
      key.rounds = std::make_unique<Rounds>(num_workers_, max_open_rounds_);
    }
    return UpdateOf(key.rounds->Add(request.worker->rank, request.step,
                                    std::move(contribution), std::move(room)));
  }

  std::optional<Fold> BeginFold(StoredKey& key,
                                const PushRequest& request) const override {
    return key.rounds->BeginFold(request.step);
  }

  std::optional<PendingUpdate> EndFold(
      StoredKey& key, Step step,
      std::optional<Contribution> sum) const override {
    return UpdateOf(key.rounds->EndFold(step, std::move(sum)));
  }

  // A closed round has a contribution of every worker, so each of them waits
  // until it has been applied.
  bool MustWait(const StoredKey& key,
                const std::optional<Worker>& worker) const override {
    if (!worker) return false;
    return key.is_updating || key.has_pending() ||
           (key.rounds && key.rounds->HasOpenRoundOf(worker->rank));
  }

  std::string DescribeWait(const StoredKey& key,
                           const std::optional<Worker>& worker) const override {
    if (key.rounds && key.rounds->HasOpenRoundOf(worker->rank)) {
      return key.rounds->DescribeOpenRoundOf(worker->rank, key.name());
    }
    return absl::StrCat("key ", Quoted(key.name()),
                        ": its update is under way");
  }

 private:
  static std::optional<PendingUpdate> UpdateOf(
      std::optional<ClosedRound> closed) {
    if (!closed) return std::nullopt;
    PendingUpdate update;
    update.round = closed->step;
    update.slots = std::move(closed->slots);
    update.held = std::move(closed->held);
    update.overhead = std::move(closed->overhead);
    update.room = std::move(closed->room);
    return update;
  }

  absl::Status CheckWorker(const Worker& worker) const {
    if (worker.rank >= num_workers_) {
      return absl::InvalidArgumentError(
          absl::StrCat("worker: expected a rank below ", num_workers_, ", got ",
                       worker.rank));
    }
    if (worker.epoch != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("worker ", worker.rank,
                       ": expected epoch 0, as the workers of this "
                       "namespace do not join, got ",
                       worker.epoch));
    }
    return absl::OkStatus();
  }

  const uint32_t num_workers_;
  const uint32_t max_open_rounds_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PushMode>> PushMode::Create(
    const NamespaceConfig& config) {
  if (config.mode == Mode::kAsync) return std::make_unique<AsyncMode>();
  if (config.mode != Mode::kSync) {
    return absl::UnimplementedError(
        "mode: expected async or sync, got bounded, which this server lacks");
  }
  if (config.num_workers == 0 || config.num_workers > kMaxWorkers) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_workers of a sync namespace: expected 1 to ",
                     kMaxWorkers, ", got ", config.num_workers));
  }
  if (config.max_open_rounds > kMaxOpenRounds) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_open_rounds: expected at most ", kMaxOpenRounds,
                     ", got ", config.max_open_rounds));
  }
  return std::make_unique<SyncMode>(
      config.num_workers, config.max_open_rounds == 0 ? kDefaultMaxOpenRounds
                                                      : config.max_open_rounds);
}

}  // namespace tensorkv

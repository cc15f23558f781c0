#include "service/store/keyspace/namespace.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/duration.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/push/gradient_guard.h"
#include "service/store/keyspace/rules/rule_states.h"
#include "service/store/names.h"
#include "service/store/namespace_status.h"
#include "service/store/round_exchange.h"

namespace tensorkv {
namespace {

// For so many looks, at a key or at a rank, who lists open rounds keeps the
// mutex: some 20 ns each.
constexpr size_t kMaxLooks = 1 << 14;

// Returns the namespace's counts. REQUIRES: the mutex is held.
NamespaceSummary Numbers(const NamespaceState& state,
                         const WaitStatus& attempts,
                         const WatchCalls::Counts& watches) {
  NamespaceSummary status;
  status.name = state.name;
  status.uid = state.uid;
  status.memory = state.memory.used();
  status.device_memory = state.memory.used_on_device();
  status.revision = state.revisions.told();
  status.budget_bytes = state.config.budget_bytes;
  status.num_keys = state.keys.size();
  status.updates_applied = state.counts.updates_applied;
  status.rounds_open = state.counts.rounds_open;
  status.rounds_closed = state.counts.rounds_closed;
  status.rounds_failed = state.counts.rounds_failed;
  status.calls_waiting = state.waits.num_parked() + attempts.calls_waiting +
                         watches.waits.calls_waiting;
  status.waits.assign(state.waits.statuses().begin(),
                      state.waits.statuses().end());
  status.waits[static_cast<size_t>(attempts.reason)] = attempts;
  status.waits[static_cast<size_t>(watches.waits.reason)] = watches.waits;
  status.live_workers = state.workers->num_live();
  status.lease_expirations = state.workers->num_expirations();
  status.contributions_late = state.counts.contributions_late;
  status.contributions_duplicate = state.counts.contributions_duplicate;
  status.contributions_fenced = state.counts.contributions_fenced;
  status.guard_counts = state.counts.guarded;
  status.num_snapshots = state.named->num_ready();
  status.changes = state.changes_sent.counts();
  status.changes_told = watches.changes_told;
  status.watches_compacted = watches.watches_compacted;
  status.change_log_bytes = state.log->bytes();
  status.slowest_lag =
      state.workers->max_step() - state.workers->slowest_step();
  return status;
}

void MemberToProto(const MemberStatus& member, v1::WorkerStatus* proto) {
  proto->set_name(member.name);
  SetWorker(member.worker, proto->mutable_worker());
  proto->set_live(member.live);
  proto->set_step(member.step);
  EncodeDuration(member.lease_remaining, proto->mutable_lease_remaining());
  proto->set_left(member.left);
}

// Checks that this server can hold a mirrored namespace, if it is one.
absl::Status CheckMirrored(const NamespaceConfig& config,
                           const NamespaceEnvironment& environment) {
  if (!config.mirrored) return absl::OkStatus();
  if (environment.exchange == nullptr) {
    return absl::UnimplementedError(
        "mirrored: expected a server of a cluster, got one by itself");
  }
  return environment.exchange->CheckGroup(config.num_workers);
}

}  // namespace

absl::Status WasReplaced(absl::string_view name_space, uint64_t expected,
                         uint64_t actual) {
  const std::string present = absl::StrCat(absl::Hex(actual, absl::kZeroPad16));
  return WithReason(
      absl::FailedPreconditionError(
          absl::StrCat("namespace ", Quoted(name_space), ": expected uid ",
                       absl::Hex(expected, absl::kZeroPad16), ", got ", present,
                       ": it was deleted and created again, or restored")),
      Reason::kNamespaceReplaced,
      {{"namespace", name_space}, {"uid", present}});
}

absl::StatusOr<std::shared_ptr<Namespace>> Namespace::Create(
    const std::string& name, NamespaceConfig config,
    const NamespaceEnvironment& environment, uint64_t uid) {
  RETURN_IF_ERROR(CheckNamespaceName(name));
  ASSIGN_OR_RETURN(UpdateRule rule, UpdateRule::Create(config.rule));
  RETURN_IF_ERROR(CheckGuard(config.gradient_guard));
  RETURN_IF_ERROR(CheckMirrored(config, environment));
  WorkerGroupOptions group = PushMode::GroupOf(config);
  if (config.mirrored) {
    group.is_local = [exchange = environment.exchange](uint32_t rank) {
      return exchange->IsLocal(rank);
    };
  }
  group.min_lease = environment.min_lease;
  group.max_lease = environment.max_lease;
  auto snapshots = std::make_unique<OpenSnapshots>();
  auto workers = std::make_unique<WorkerGroup>(group);
  ASSIGN_OR_RETURN(
      std::unique_ptr<PushMode> mode,
      PushMode::Create(config, workers.get(), &snapshots->revisions()));
  ASSIGN_OR_RETURN(config.budget_bytes,
                   environment.budgets->BudgetOf(name, config.budget_bytes));
  config.rule = rule.spec();
  mode->FillDefaults(config);
  const uint64_t text_bytes = TextBytes(rule);
  auto state = std::make_shared<NamespaceState>(
      name, std::move(config), std::move(snapshots), std::move(workers),
      std::move(mode), MakeRefCounted<BoundRule>(std::move(rule)), environment,
      uid);
  if (text_bytes > 0) {
    ASSIGN_OR_RETURN(Reservation overhead,
                     Reservation::Create(state->memory.metadata(), text_bytes));
    auto charged = std::make_shared<RuleBindings>(*state->Bindings());
    charged->Charge("", std::move(overhead));
    MutexLock lock(&state->mutex);
    state->bindings = std::move(charged);
  }
  return std::shared_ptr<Namespace>(new Namespace(std::move(state)));
}

absl::Status Namespace::Allocate(absl::Span<Tensor* const> tensors) const {
  return state_->tensor_placement->Stage(state_->memory.host().contributions,
                                         tensors);
}

// Nothing of a push stays behind where contributions do not wait. The guard
// clips elements where they are, which takes memory of the server.
bool Namespace::ReadsInPlace() const {
  return !state_->tensor_placement->copies() &&
         state_->mode->forgets_contributions() && !state_->is_guarded;
}

NamespaceStatus Namespace::Describe() const {
  const WaitStatus attempts = state_->calls->waits();
  const WatchCalls::Counts watches = state_->watch_calls->counts();
  const std::shared_ptr<const RuleBindings> bound = state_->Bindings();
  NamespaceStatus status;
  for (const RuleBinding& binding : bound->List()) {
    ToProto(binding, status.add_rules());
  }
  for (const MultipliersBinding& binding : bound->multipliers.List()) {
    ToProto(binding, status.add_multipliers());
  }
  NamespaceSummary summary;
  NamespaceConfig config;
  std::vector<MemberStatus> members;
  {
    MutexLock lock(&state_->mutex);
    summary = Numbers(*state_, attempts, watches);
    config = state_->config;
    members = state_->workers->List(state_->Now());
  }
  ToProto(summary, &status);
  for (const MemberStatus& member : members) {
    MemberToProto(member, status.add_workers());
  }
  config.rule = bound->Get("")->spec();
  ToProto(config, status.mutable_config());
  return status;
}

NamespaceSummary Namespace::Summarize() const {
  const WaitStatus attempts = state_->calls->waits();
  const WatchCalls::Counts watches = state_->watch_calls->counts();
  MutexLock lock(&state_->mutex);
  return Numbers(*state_, attempts, watches);
}

std::vector<OpenRound> Namespace::OpenRounds() const {
  std::vector<OpenRound> rounds;
  {
    MutexLock lock(&state_->mutex);
    size_t num_looks = 0;
    for (const StoredKey* key : state_->keys_with_rounds) {
      if (++num_looks > kMaxLooks) break;
      for (auto& [step, missing] : key->rounds->Awaited()) {
        num_looks += state_->workers->end_rank();
        rounds.push_back({std::string(key->name()), step, std::move(missing)});
      }
    }
  }
  std::sort(rounds.begin(), rounds.end(),
            [](const OpenRound& a, const OpenRound& b) {
              return std::tie(a.step, a.key) < std::tie(b.step, b.key);
            });
  return rounds;
}

CallWindow& Namespace::calls() { return *state_->calls; }
const Alarms& Namespace::alarms() const { return *state_->environment.alarms; }
uint64_t Namespace::uid() const { return state_->uid; }
bool Namespace::is_mirrored() const { return state_->config.mirrored; }

NamespaceConfig Namespace::config() const {
  MutexLock lock(&state_->mutex);
  return state_->config;
}

}  // namespace tensorkv

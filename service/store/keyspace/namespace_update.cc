// Changes the configuration of a namespace while it is used.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/slices.h"
#include "service/store/keyspace/config_fields.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/push/gradient_guard.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/keyspace/workers/membership.h"
#include "service/store/names.h"
#include "service/store/round_exchange.h"

namespace tensorkv {
namespace {

// Checks that no key is in slices, of each of which a guard would take the norm
// by itself.
absl::Status CheckHasNoSlices(const NamespaceState& state) {
  const std::vector<StoredKey*> slices = state.keys.List(kSliceMark, "", 1);
  if (slices.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "gradient_guard: expected none in namespace ", Quoted(state.name),
      ", which has key ", Quoted(WholeKeyOf(slices.front()->name())),
      " in slices, got one"));
}

// Checks that a server of a cluster changes nothing by which it ends rounds:
// workers push at every server, and others have changed it earlier or later.
absl::Status CheckCluster(const NamespaceState& state,
                          absl::Span<const std::string> update_mask) {
  const RoundExchange* const exchange = state.environment.exchange;
  const bool is_in_cluster =
      exchange != nullptr && exchange->CheckGroup(kMaxWorkers).ok();
  if (!is_in_cluster) return absl::OkStatus();
  for (const std::string& path : update_mask) {
    if (MayChangeInClusters(path)) continue;
    return absl::UnimplementedError(absl::StrCat(
        path,
        ": servers of a cluster change budget_bytes, max_retained_bytes and "
        "gradient_guard alone"));
  }
  return absl::OkStatus();
}

// Returns the configuration that the namespace is to have. REQUIRES: the mutex
// is held, and the update_mask is right.
absl::StatusOr<NamespaceConfig> Wanted(
    const NamespaceState& state, const NamespaceConfig& changed,
    absl::Span<const std::string> update_mask) {
  NamespaceConfig config = state.config;
  CopyFields(update_mask, changed, config);
  ASSIGN_OR_RETURN(config.budget_bytes, state.environment.budgets->BudgetOf(
                                            state.name, config.budget_bytes));
  RETURN_IF_ERROR(CheckGuard(config.gradient_guard));
  RETURN_IF_ERROR(PushMode::CheckConfig(config));
  if (config.gradient_guard.is_on()) RETURN_IF_ERROR(CheckHasNoSlices(state));
  return config;
}

// Has rounds, and who waits, go by what `config` says of workers.
void ChangeRounds(Transaction& transaction, const NamespaceConfig& before,
                  const NamespaceConfig& config) {
  NamespaceState& state = transaction.state();
  std::vector<uint32_t> gone;
  if (config.on_worker_loss != before.on_worker_loss) {
    gone = state.workers->SetOnWorkerLoss(PushMode::GroupOf(config));
  }
  state.mode->Update(config);
  if (config.quorum != before.quorum ||
      config.quorum_grace != before.quorum_grace ||
      config.round_timeout != before.round_timeout) {
    state.round_times.Change(state, before);
  } else if (config.on_worker_loss == before.on_worker_loss) {
    return;
  }
  // Some rounds may be complete now, and some calls wait for nobody any more.
  OnWorkersGone(transaction, gone);
}

// Makes the change and returns the configuration as it is then, with the
// present default rule. Sets `changes` to what has changed.
absl::StatusOr<NamespaceConfig> Update(
    NamespaceState& state, const NamespaceConfig& changed,
    absl::Span<const std::string> update_mask, std::string& changes) {
  RETURN_IF_ERROR(CheckUpdateMask(update_mask));
  RETURN_IF_ERROR(CheckCluster(state, update_mask));
  Transaction transaction(state);
  RETURN_IF_ERROR(state.gone);
  ASSIGN_OR_RETURN(NamespaceConfig config, Wanted(state, changed, update_mask));
  const NamespaceConfig before = state.config;
  changes = TextOfChanges(before, config);
  if (!changes.empty()) {
    CopyFields(update_mask, config, state.config);
    state.memory.SetLimit(config.budget_bytes);
    state.is_guarded = config.gradient_guard.is_on();
    ChangeRounds(transaction, before, config);
    transaction.MarkChanged();
  }
  config.rule = state.bindings->Get("")->spec();
  return config;
}

absl::StatusOr<UpdateNamespaceReply> UpdateNow(
    NamespaceState& state, const UpdateNamespaceRequest& request) {
  ASSIGN_OR_RETURN(const NamespaceConfig changed,
                   KnownConfig(request.config()));
  const auto& paths = request.update_mask().paths();
  const std::vector<std::string> update_mask(paths.begin(), paths.end());
  std::string changes;
  ASSIGN_OR_RETURN(const NamespaceConfig config,
                   Update(state, changed, update_mask, changes));
  UpdateNamespaceReply reply;
  ToProto(config, reply.mutable_config());
  if (!changes.empty()) {
    state.Report(StoreEvent::kNamespaceUpdated, changes);
  }
  return reply;
}

}  // namespace

void Namespace::UpdateNamespace(UpdateNamespaceRequest request, CallContext,
                                ReplyCallback<UpdateNamespaceReply> done) {
  std::move(done)(UpdateNow(*state_, request));
}

}  // namespace tensorkv

#include "service/store/keyspace/namespace_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Say how much of the budget answers to calls may take, and how much is enough
// for any.
constexpr uint64_t kShareOfCallWindow = 64;
constexpr uint64_t kMinCallWindowBytes = 64 << 10;
constexpr uint64_t kMaxCallWindowBytes = 64 << 20;

CallWindowOptions WindowOptions(uint64_t budget_bytes,
                                const NamespaceEnvironment& environment) {
  const uint64_t bytes =
      std::min(budget_bytes, environment.budgets->host()->limit_bytes());
  return {.max_bytes = std::clamp(bytes / kShareOfCallWindow,
                                  kMinCallWindowBytes, kMaxCallWindowBytes),
          .max_wait = environment.max_wait};
}

// A namespace that is created later has a higher one, as far as clocks go.
uint64_t NewUid() {
  return static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
}

// Returns whether the call has been made, or is being made, as far as one knows
// before its attempt. Errors: those of CallWindow::Knows.
absl::StatusOr<bool> IsRepeat(const CallWindow& calls, const Caller& caller,
                              const std::optional<CallId>& call_id) {
  if (!call_id) return false;
  return calls.Knows(caller, *call_id);
}

}  // namespace

NamespaceState::NamespaceState(std::string its_name, NamespaceConfig its_config,
                               std::unique_ptr<OpenSnapshots> its_snapshots,
                               std::unique_ptr<WorkerGroup> its_workers,
                               std::unique_ptr<PushMode> its_mode,
                               SharedRule rule,
                               const NamespaceEnvironment& its_environment,
                               uint64_t its_uid)
    : name(std::move(its_name)),
      uid(its_uid == 0 ? NewUid() : its_uid),
      config(std::move(its_config)),
      is_guarded(config.gradient_guard.is_on()),
      snapshots(std::move(its_snapshots)),
      workers(std::move(its_workers)),
      environment(its_environment),
      memory(absl::StrCat("namespace ", Quoted(name)), config.budget_bytes,
             environment.budgets),
      tensor_placement(TensorPlacement::Create(environment.device, &memory)),
      named(std::make_unique<NamedSnapshots>(memory.host().retained,
                                             memory.metadata())),
      log(std::make_unique<ChangeLog>(environment.budgets->changes())),
      watch_calls(std::make_unique<WatchCalls>(*this)),
      mode(std::move(its_mode)),
      calls(CallWindow::Create(WindowOptions(config.budget_bytes, environment),
                               environment.alarms, memory.metadata())),
      bindings(std::make_shared<const RuleBindings>(std::move(rule))),
      changes(environment.budgets->changes()) {
  if (StepRecords* const records = mode->step_records()) {
    records->Begin(memory.metadata(), workers.get(), has_means());
  }
}

absl::Status NamespaceState::NoSuchKey(absl::string_view key) const {
  return WithReason(
      absl::NotFoundError(absl::StrCat(
          "key ", Quoted(key), " does not exist in namespace ", Quoted(name))),
      Reason::kKeyNotFound, {{"key", key}});
}

absl::Status NamespaceState::CheckNumEntries(size_t num_entries) const {
  if (num_entries <= environment.max_entries) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        "entries of a call: expected at most ",
                        environment.max_entries, ", got ", num_entries)),
                    Reason::kLimitReached,
                    {{"limit", environment.max_entries}});
}

absl::Status NamespaceState::CheckAndRenew(
    const std::optional<Worker>& worker) {
  if (!worker) return absl::OkStatus();
  RETURN_IF_ERROR(mode->CheckWorker(worker, Now()));
  workers->Renew(*worker, Now());
  return absl::OkStatus();
}

absl::Status NamespaceState::CheckHeadroomUnlessRepeat(
    const Caller& caller, const std::optional<CallId>& call_id,
    uint64_t staging_bytes,
    absl::FunctionRef<absl::StatusOr<BytesNeeded>()> check) const {
  const auto check_call = [&]() -> absl::Status {
    RETURN_IF_ERROR(caller.unless_remembered);
    ASSIGN_OR_RETURN(BytesNeeded needed, check());
    needed.host = SumOfBytes(needed.host, staging_bytes);
    return memory.CheckHeadroom(needed);
  };
  ASSIGN_OR_RETURN(bool is_repeat, IsRepeat(*calls, caller, call_id));
  if (!is_repeat) {
    const absl::Status status = check_call();
    if (status.ok()) return status;
    // It may speak against the call that it has been made meanwhile.
    ASSIGN_OR_RETURN(is_repeat, IsRepeat(*calls, caller, call_id));
    if (!is_repeat) return status;
  }
  return memory.CheckHeadroom({.host = staging_bytes});
}

}  // namespace tensorkv

// Init: makes keys with values.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "service/store/keyspace/key_creation.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/rules/rule_states.h"

namespace tensorkv {
namespace {

uint64_t SizeOfTensors(const InitRequest& request) {
  uint64_t bytes = 0;
  for (const InitEntry& entry : request.entries) {
    bytes = SumOfBytes(bytes, entry.tensor.size_bytes());
  }
  return bytes;
}

// Returns whether the call is not for the thread that it comes on: it may copy
// many bytes, or match many patterns.
bool TakesLong(NamespaceState& state, const InitRequest& request) {
  const std::shared_ptr<const RuleBindings> bindings = state.Bindings();
  const size_t num_patterns =
      bindings->num_patterns() + bindings->multipliers.num_patterns();
  return SizeOfTensors(request) > kMaxBytesInline ||
         request.entries.size() * num_patterns > kMaxMatchesInline;
}

absl::Status NothingMore(Transaction&, size_t, StoredKey&) {
  return absl::OkStatus();
}

// Makes the keys; waits on no thread for the end of changes of rules, if these
// come too fast. The call has come at `started`. What was not taken of the
// request goes before the caller hears of the end.
void MakeKeys(NamespaceState& state, absl::Duration started,
              std::unique_ptr<KeyCreation> creation,
              ReplyCallback<InitReply> done) {
  absl::StatusOr<std::optional<InitReply>> made = creation->Run();
  if (!made.ok() || *made) {
    creation = nullptr;
    if (!made.ok()) return std::move(done)(made.status());
    return std::move(done)(**std::move(made));
  }
  CallContext context = creation->context();
  context.timeout -= state.Now() - started;
  HoldRules(state, std::move(context),
            [creation = std::move(creation),
             done = std::move(done)](absl::StatusOr<RulesHold> rules) mutable {
              absl::StatusOr<InitReply> reply =
                  rules.ok() ? creation->RunWith(*rules) : rules.status();
              creation = nullptr;
              if (rules.ok()) rules->Release();
              std::move(done)(std::move(reply));
            });
}

// Returns the bytes that the Init needs, as things are. Errors: those of Init.
absl::StatusOr<BytesNeeded> BytesToInit(const NamespaceState& state,
                                        const InitRequest& request) {
  const std::vector<size_t> hashes = HashesOf(request);
  std::vector<bool> wanted;
  std::shared_ptr<const RuleBindings> bindings;
  {
    MutexLock lock(&state.mutex);
    ASSIGN_OR_RETURN(wanted,
                     EntriesToMake(state, request, hashes, KeySource::kCall));
    bindings = state.bindings;
  }
  std::vector<absl::string_view> names;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) names.push_back(request.entries[i].key);
  }
  // A search that takes long is left to the call itself.
  if (names.size() * bindings->num_patterns() > kMaxMatchesInline)
    names.clear();
  ASSIGN_OR_RETURN(const std::vector<const SharedRule*> rules,
                   bindings->Find(names, [] { return absl::OkStatus(); }));
  BytesNeeded bytes;
  auto next_rule = rules.begin();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const InitEntry& entry = request.entries[i];
    if (!wanted[i]) continue;
    RETURN_IF_ERROR(PushMode::CheckAllowsDType(
        state.config.aggregation, entry.key, entry.tensor.dtype()));
    bytes.device = SumOfBytes(
        bytes.device, BytesOfNewValue(*state.tensor_placement, entry.tensor));
    if (next_rule != rules.end()) {
      const UpdateRule& rule = ***next_rule++;
      RETURN_IF_ERROR(CheckRule(entry.key, entry.tensor.dtype(), rule));
      bytes.device = SumOfBytes(bytes.device, StateBytesOf(entry.tensor, rule));
    }
    bytes.host += KeyOverheadBytes(entry.key);
  }
  return bytes;
}

}  // namespace

void Namespace::Init(InitRequest request, CallContext context,
                     ReplyCallback<InitReply> done) {
  const bool takes_long = TakesLong(*state_, request);
  auto share = context.share.lock();
  auto creation = std::make_unique<KeyCreation>(
      *state_, std::move(request), KeySource::kCall, std::move(context),
      &NothingMore);
  const absl::Duration started = state_->Now();
  if (!takes_long) {
    return MakeKeys(*state_, started, std::move(creation), std::move(done));
  }
  state_->Run([state = state_, share = std::move(share), started,
               creation = std::move(creation),
               done = std::move(done)]() mutable {
    MakeKeys(*state, started, std::move(creation), std::move(done));
  });
}

absl::Status Namespace::CheckInit(const InitRequest& request,
                                  const Caller& caller) const {
  RETURN_IF_ERROR(CheckFields(*state_, request));
  return state_->CheckHeadroomUnlessRepeat(
      caller, request.call_id,
      BytesToStage(state_->tensor_placement->sharing(), request),
      [&] { return BytesToInit(*state_, request); });
}

}  // namespace tensorkv

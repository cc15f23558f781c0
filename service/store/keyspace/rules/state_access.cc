#include "service/store/keyspace/rules/state_access.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/names.h"

namespace tensorkv {

std::vector<std::string> StateNames(const UpdateRule& rule, DType dtype) {
  std::vector<std::string> names;
  for (const StateSpec& spec : rule.states()) names.emplace_back(spec.name);
  if (rule.keeps_master(dtype)) names.emplace_back(kMasterState);
  return names;
}

std::vector<KeyState> StatesOf(const StoredKey& key) {
  std::vector<KeyState> states;
  if (const RuleState* const kept = key.rule_state.get()) {
    const absl::Span<const StateSpec> specs = key.rule->states();
    for (size_t i = 0; i < specs.size(); ++i) {
      states.push_back({std::string(specs[i].name),
                        StateSpec::DTypeFor(key.dtype()),
                        specs[i].ShapeFor(key.shape()), kept->states[i].get()});
    }
    if (kept->master) {
      states.push_back({std::string(kMasterState), DType::kF32, key.shape(),
                        kept->master.get()});
    }
  }
  states.push_back({std::string(kUpdateCountState), DType::kU64, Shape()});
  return states;
}

absl::StatusOr<KeyState> FindState(const StoredKey& key,
                                   absl::string_view name) {
  for (KeyState& state : StatesOf(key)) {
    if (state.name == name) return std::move(state);
  }
  return WithReason(
      absl::NotFoundError(absl::StrCat("key ", Quoted(key.name()),
                                       ": its rule, ", key.rule->spec().name,
                                       ", keeps no state ", Quoted(name))),
      Reason::kStateNotFound, {{"key", key.name()}, {"state", name}});
}

void StateAccess::Begin(StoredKey& key) {
  for (Entry& entry : entries_) {
    status_ = BeginEntry(key, entry);
    if (!status_.ok()) return;
  }
}

absl::Status StateAccess::BeginEntry(const StoredKey& key, Entry& entry) {
  ASSIGN_OR_RETURN(const KeyState state, FindState(key, entry.state));
  Tensor& tensor = entry.tensor;
  if (state.dtype != tensor.dtype() || state.shape != tensor.shape()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "key ", Quoted(key.name()), ": state ", Quoted(entry.state),
        " changed with its rule to ", Description(state.dtype, state.shape)));
  }
  const size_t size_bytes = tensor.size_bytes();
  if (size_bytes == 0) return absl::OkStatus();
  if (state.buffer == nullptr) {
    entry.is_number = true;
    if (!writes()) {
      std::memcpy(tensor.mutable_data(), &key.update_count, size_bytes);
    }
  } else if (writes()) {
    copies_.push_back(
        {tensor.data(), state.buffer->mutable_data(), size_bytes});
  } else {
    copies_.push_back(
        {state.buffer->data(), tensor.mutable_data(), size_bytes});
  }
  return absl::OkStatus();
}

void StateAccess::AddCopies(std::vector<MemoryCopy>& uploads,
                            std::vector<MemoryCopy>& downloads) {
  if (!status_.ok()) return;
  std::vector<MemoryCopy>& to = writes() ? uploads : downloads;
  to.insert(to.end(), copies_.begin(), copies_.end());
}

void StateAccess::End(StoredKey& key, const absl::Status& status,
                      const UpdateRule& rule) {
  if (!writes() || !status.ok() || !key.rule->Continues(rule)) return;
  for (const Entry& entry : entries_) {
    if (!entry.is_number) continue;
    std::memcpy(&key.update_count, entry.tensor.data(),
                entry.tensor.size_bytes());
  }
}

uint64_t StateAccess::size_bytes() const {
  uint64_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.tensor.size_bytes();
  return bytes;
}

}  // namespace tensorkv

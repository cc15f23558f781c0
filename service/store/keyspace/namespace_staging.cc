#include "base/status_macros.h"
#include "service/store/keyspace/namespace.h"
#include "service/store/keyspace/staged_tensors.h"

namespace tensorkv {

absl::Status Namespace::CheckInit(const InitRequest& request,
                                  const Caller& caller) const {
  RETURN_IF_ERROR(CheckFields(request));
  StagingLayout staging;
  for (const InitEntry& entry : request.entries) {
    if (!entry.tensor.has_data()) staging.Add(entry.tensor.size_bytes());
  }
  return CheckUnlessRepeat(caller, request.call_id, staging.total_bytes(),
                           [&] { return BytesFor(request); });
}

absl::Status Namespace::CheckUnlessRepeat(
    const Caller& caller, const std::optional<CallId>& call_id,
    uint64_t staging_bytes,
    absl::FunctionRef<absl::StatusOr<BytesNeeded>()> check) const {
  ASSIGN_OR_RETURN(bool is_repeat, IsRepeat(caller, call_id));
  BytesNeeded needed;
  if (!is_repeat) {
    absl::StatusOr<BytesNeeded> bytes = check();
    // What speaks against it may be that it has been made meanwhile.
    if (!bytes.ok()) {
      ASSIGN_OR_RETURN(is_repeat, IsRepeat(caller, call_id));
    }
    if (!is_repeat) {
      RETURN_IF_ERROR(bytes.status());
      needed = *std::move(bytes);
    }
  }
  needed.host = SumOfBytes(needed.host, staging_bytes);
  return memory_.CheckRoom(needed);
}

absl::StatusOr<BytesNeeded> Namespace::BytesFor(
    const InitRequest& request) const {
  std::vector<bool> wanted;
  std::shared_ptr<const RuleBindings> bindings;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(wanted, EntriesToCreate(request));
    bindings = bindings_;
  }
  std::vector<absl::string_view> names;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) names.push_back(request.entries[i].key);
  }
  // What takes long is left to the call itself.
  if (names.size() * bindings->num_patterns() > kMaxMatchesInline)
    names.clear();
  ASSIGN_OR_RETURN(const std::vector<const SharedRule*> rules,
                   bindings->Find(names, [] { return absl::OkStatus(); }));
  Placement placement(*environment_.budgets);
  BytesNeeded bytes = {.devices = memory_.NoBytes()};
  auto next_rule = rules.begin();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const InitEntry& entry = request.entries[i];
    if (!wanted[i]) continue;
    uint64_t key_bytes = BytesOfNewValue(entry.tensor);
    if (next_rule != rules.end()) {
      const UpdateRule& rule = ***next_rule++;
      RETURN_IF_ERROR(CheckRule(entry.key, entry.tensor.dtype(), rule));
      key_bytes = SumOfBytes(key_bytes, StateBytesOf(entry.tensor, rule));
    }
    bytes.host += KeyOverheadBytes(entry.key);
    uint64_t& on_device = bytes.devices[placement.Place(key_bytes)];
    on_device = SumOfBytes(on_device, key_bytes);
  }
  return bytes;
}

uint64_t Namespace::BytesOfNewValue(const Tensor& tensor) const {
  const uint64_t value_bytes = tensor.size_bytes();
  const bool becomes_value =
      tensor.has_data() ? BecomesValue(tensor)
                        : is_on_host_ && value_bytes >= kOwnBufferBytes;
  return becomes_value ? 0 : value_bytes;
}

uint64_t Namespace::StateBytesOf(const Tensor& tensor, const UpdateRule& rule) {
  const uint64_t elements = tensor.num_elements();
  const uint64_t state_bytes =
      elements * SizeOf(AccumulateType(tensor.dtype()));
  uint64_t bytes = 0;
  for (int i = 0; i < rule.num_states(); ++i) {
    bytes = SumOfBytes(bytes, state_bytes);
  }
  if (rule.keeps_master(tensor.dtype())) {
    bytes = SumOfBytes(bytes, elements * SizeOf(DType::kF32));
  }
  return bytes;
}

absl::Status Namespace::CheckPush(const PushRequest& request,
                                  const Caller& caller) {
  RETURN_IF_ERROR(CheckFields(request));
  StagingLayout staging;
  for (const PushEntry& entry : request.entries) {
    if (!entry.skip && !entry.tensor.has_data()) {
      staging.Add(entry.tensor.size_bytes());
    }
  }
  return CheckUnlessRepeat(caller, request.call_id, staging.total_bytes(),
                           [&] { return BytesFor(request); });
}

absl::StatusOr<BytesNeeded> Namespace::BytesFor(const PushRequest& request) {
  BytesNeeded bytes = {
      .host = request.entries.size() * kContributionOverheadBytes +
              BytesToHold(request),
      .devices = memory_.NoBytes()};
  MutexLock lock(&mutex_);
  absl::Status status = Admit(request.worker);
  if (status.ok()) {
    const absl::StatusOr<GroupedEntries> entries = GroupByKey(request);
    if (entries.ok()) {
      bytes.host += entries->note_bytes;
      bytes.devices = entries->room_bytes;
      const BytesByDevice copies = BytesOfCopies(request, *entries);
      for (size_t i = 0; i < copies.size(); ++i) bytes.devices[i] += copies[i];
      return bytes;
    }
    status = entries.status();
  }
  CountRefusal(status);
  return status;
}

absl::Status Namespace::Allocate(absl::Span<Tensor* const> tensors) const {
  return AllocateStaged(memory_.host().contributions, tensors);
}

}  // namespace tensorkv

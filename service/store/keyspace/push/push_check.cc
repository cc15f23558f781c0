#include "service/store/keyspace/push/push_check.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/push/push_copies.h"
#include "service/store/keyspace/push/pushed_deltas.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/snapshots/taking.h"
#include "service/store/keyspace/updates/row_batches.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

absl::Status CheckLength(const PushEntry& entry) {
  const int64_t expected = entry.encoding->payload_bytes();
  if (entry.tensor.size_bytes() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("payload: expected ", expected,
                                                 " bytes, got ",
                                                 entry.tensor.size_bytes()));
}

// Checks what an encoded contribution's payload alone can show to be wrong. A
// check ahead of the payload has none to look at.
absl::Status CheckPayload(const PushEntry& entry) {
  absl::Status status = CheckLength(entry);
  if (status.ok() && entry.tensor.has_data()) {
    status = entry.encoding->CheckPayload(entry.tensor.data());
  }
  if (status.ok()) return status;
  return WithReason(absl::InvalidArgumentError(absl::StrCat(
                        "key ", Quoted(entry.key), ": ", status.message())),
                    Reason::kEncodingMalformed, {{"key", entry.key}});
}

// Checks a weight that is not 1.
absl::Status CheckWeight(const NamespaceState& state, const PushEntry& entry) {
  // So that sums of products with elements from 1e-20 to 1e20 are in the range
  // of f32.
  constexpr double kMin = 1e-9;
  constexpr double kMax = 1e9;
  const bool is_right =
      entry.weight == 0 || (entry.weight >= kMin && entry.weight <= kMax);
  if (state.has_means() && is_right) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "key ", Quoted(entry.key), ": weight: expected ",
      state.has_means() ? "0, or a number from 1e-9 to 1e9"
                        : "1, as the namespace's aggregation is no mean",
      ", got ", entry.weight));
}

// Counts a push that was refused with `status`.
void CountRefusal(NamespaceState& state, const PushRequest& request,
                  const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  StepRecords* const records = state.mode->step_records();
  if (records != nullptr && request.worker) {
    records->PushRefused(request.step, request.worker->rank, reason);
  }
  NamespaceCounts& counts = state.counts;
  switch (reason) {
    case Reason::kContributionExists:
      ++counts.contributions_duplicate;
      break;
    case Reason::kStepClosed:
      ++counts.contributions_late;
      break;
    case Reason::kNotMember:
    case Reason::kLeaseLost:
    case Reason::kGroupDoesNotJoin:
      ++counts.contributions_fenced;
      break;
    default:
      break;
  }
}

// Returns the bytes that the push will reserve, if it can be admitted as things
// are; else the error of Push.
absl::StatusOr<BytesNeeded> BytesToPush(NamespaceState& state,
                                        const PushRequest& request) {
  LookAtRows(state, request);
  const std::vector<DeltaBase> bases = BasesOf(state, request);
  MutexLock lock(&state.mutex);
  ASSIGN_OR_RETURN(const EntriesByKey entries, CheckKeys(state, request));
  RETURN_IF_ERROR(CheckBases(state, request, entries, bases));
  return BytesNeeded{
      .host = SumOfBytes(OverheadOf(state.memory, request) +
                             UncountedBytes(state.memory, request) +
                             entries.record_bytes,
                         BytesOfWholes(entries, bases)),
      .device = SumOfBytes(PushCopies::BytesOf(state, request),
                           BytesBesideTensors(entries))};
}

}  // namespace

absl::Status CheckFields(const NamespaceState& state,
                         const PushRequest& request) {
  RETURN_IF_ERROR(state.CheckNumEntries(request.entries.size()));
  RETURN_IF_ERROR(state.mode->CheckPush(request));
  if (request.publish_as && !state.mode->applies_at_once()) {
    return absl::InvalidArgumentError(
        "publish_as: expected none in MODE_SYNC, got one");
  }
  if (request.with_tokens && !state.mode->applies_at_once()) {
    return absl::InvalidArgumentError(
        "with_tokens: expected none in MODE_SYNC, got one");
  }
  RETURN_IF_ERROR(Publication::Create(request.publish_as).status());
  for (const PushEntry& entry : request.entries) {
    RETURN_IF_ERROR(CheckKey(entry.key));
    if (entry.delta) RETURN_IF_ERROR(CheckDelta(state, entry));
    if (entry.skip) continue;
    if (entry.weight != 1) RETURN_IF_ERROR(CheckWeight(state, entry));
    if (!entry.encoding) continue;
    RETURN_IF_ERROR(CheckPayload(entry));
    if (entry.rows && HasValues(entry.encoding->packing())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "key ", Quoted(entry.key),
          ": expected rows with an encoding that has a code for each element, "
          "got top_k or random_k"));
    }
  }
  return absl::OkStatus();
}

void LookAtRows(const NamespaceState& state, const PushRequest& request) {
  if (!MayNeedSums(state, request)) return;
  for (const PushEntry& entry : request.entries) {
    if (entry.rows) entry.rows->has_repeats();
  }
}

absl::StatusOr<EntriesByKey> CheckKeys(NamespaceState& state,
                                       const PushRequest& request) {
  const auto check = [&]() -> absl::StatusOr<EntriesByKey> {
    RETURN_IF_ERROR(state.gone);
    RETURN_IF_ERROR(state.CheckAndRenew(request.worker));
    return GroupByKey(state, request);
  };
  absl::StatusOr<EntriesByKey> entries = check();
  if (!entries.ok()) CountRefusal(state, request, entries.status());
  return entries;
}

uint64_t UncountedBytes(const NamespaceMemory& memory, const Tensor& tensor) {
  const bool is_counted =
      !tensor.has_data() || IsCountedBy(*memory.host().contributions, tensor);
  return is_counted ? 0 : tensor.size_bytes();
}

uint64_t UncountedBytes(const NamespaceMemory& memory,
                        const PushRequest& request) {
  uint64_t bytes = 0;
  for (const PushEntry& entry : request.entries) {
    if (!BringsNothing(entry)) bytes += UncountedBytes(memory, entry.tensor);
  }
  return bytes;
}

uint64_t OverheadOf(const NamespaceMemory& memory, const PushEntry& entry) {
  if (!entry.rows) return kContributionOverheadBytes;
  return kContributionOverheadBytes +
         UncountedBytes(memory, entry.rows->tensor()) +
         entry.rows->size() * kBytesPerRowId;
}

uint64_t OverheadOf(const NamespaceMemory& memory, const PushRequest& request) {
  uint64_t bytes = 0;
  for (const PushEntry& entry : request.entries) {
    bytes += OverheadOf(memory, entry);
  }
  return bytes;
}

uint64_t BytesBesideTensors(const EntriesByKey& entries) {
  return SumOfBytes(SumOfBytes(entries.new_value_bytes, entries.decoded_bytes),
                    entries.sum_bytes);
}

absl::Status Namespace::CheckPush(const PushRequest& request,
                                  const Caller& caller) {
  RETURN_IF_ERROR(CheckFields(*state_, request));
  return state_->CheckHeadroomUnlessRepeat(
      caller, request.call_id,
      BytesToStage(state_->tensor_placement->sharing(), request),
      [&] { return BytesToPush(*state_, request); });
}

}  // namespace tensorkv

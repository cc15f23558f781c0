#include "service/store/keyspace/push/entries_by_key.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/pull/row_check.h"
#include "service/store/keyspace/snapshots/snapshot_copies.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Encoded entries of a key after its first one may decode to so many times the
// bytes that the call brings, an entry besides its payload counted as so many:
// a few bytes may stand for a whole tensor.
constexpr uint64_t kMaxExpansion = 4096;
constexpr uint64_t kEntryBytes = 32;
// Says how far ahead of a key others are fetched.
constexpr size_t kKeysAhead = 8;

bool Takes(DType key, DType contribution) {
  return key == contribution || (IsFloat(key) && IsFloat(contribution));
}

// Returns whether the entry is what most are: a whole tensor that the key
// takes.
bool IsWholeTensor(const StoredKey& key, const PushEntry& entry) {
  return !entry.skip && !entry.rows && Takes(key.dtype(), entry.dtype()) &&
         key.HasShape(entry.shape());
}

absl::Status CheckEntry(const StoredKey& key, const PushEntry& entry) {
  // The shape of a delta is its own; that of what it has become is checked with
  // its base.
  if (entry.skip || entry.delta) return absl::OkStatus();
  Shape expected = key.shape();
  if (entry.rows) {
    RETURN_IF_ERROR(CheckRuleAllowsRows(key));
    RETURN_IF_ERROR(CheckRowIds(key, *entry.rows));
    ASSIGN_OR_RETURN(expected, ShapeOfRows(key, entry.rows->size()));
  }
  if (Takes(key.dtype(), entry.dtype()) && expected == entry.shape()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("key ", Quoted(entry.key), ": expected ",
                   Description(key.dtype(), expected), ", got ",
                   Description(entry.dtype(), entry.shape())));
}

// Rows are updated in place, unless somebody reads the value. Whether that is
// so shows now if the update runs now. If it is a snapshot alone that takes the
// value, the new one is not the push's to pay for.
bool BringsReservation(const NamespaceState& state, StoredKey& key,
                       const PushRequest& request, const PushEntry& entry) {
  const PushMode& mode = *state.mode;
  if (!mode.NeedsReservation(key, request)) return false;
  if (!entry.rows) return true;
  return mode.applies_at_once() && !key.is_updating && !key.is_writable() &&
         !MayHaveValue(state, key);
}

absl::Status FindKeys(const NamespaceState& state, const PushRequest& request,
                      EntriesByKey& entries) {
  const std::vector<PushEntry>& from = request.entries;
  const Step round = state.mode->applies_at_once() ? 0 : request.step;
  RETURN_IF_ERROR(
      CheckEach(state.Fence(), from,
                [&](const KeyFence::View& fence, const PushEntry& entry) {
                  return fence.CheckChange(state.name, entry.key, round);
                }));
  // Whoever is given the entries goes over all of their keys, on errors too.
  std::vector<EntriesByKey::KeyOfEntry> keys(from.size());
  KeyTable::Finder finder(state.keys, from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    keys[i].key = finder.Find(from[i].key);
    if (keys[i].key == nullptr) return state.NoSuchKey(from[i].key);
    __builtin_prefetch(keys[i].key->value.get());
  }
  entries.keys = std::move(keys);
  return absl::OkStatus();
}

// Checks whether the contribution of a first entry is there already; if not,
// adds what it takes to remember it.
absl::Status CheckRepeat(const PushMode& mode, const PushRequest& request,
                         uint32_t position, EntriesByKey& entries) {
  EntriesByKey::KeyOfEntry& first = entries.keys[position];
  ASSIGN_OR_RETURN(const std::optional<PushResult> repeat,
                   mode.CheckKey(*first.key, request));
  first.is_repeat = repeat.has_value();
  if (repeat) {
    entries.repeats.emplace_back(position, *repeat);
  } else {
    entries.record_bytes += mode.BytesToRecord(*first.key, request);
  }
  return absl::OkStatus();
}

// Checks that a key that is about to move takes no late contribution that only
// a later round could take: where it goes, it is carried.
absl::Status CheckMayCarry(const NamespaceState& state, const StoredKey& key,
                           const PushRequest& request) {
  if (!key.rounds || !key.rounds->IsClosed(request.step) ||
      key.rounds->MustRepush(request.worker->rank, request.step)) {
    return absl::OkStatus();
  }
  const auto fence = state.Fence();
  return fence == nullptr ? absl::OkStatus()
                          : fence->CheckChange(state.name, key.name());
}

void AddReservation(const NamespaceState& state, const PushRequest& request,
                    uint32_t position, EntriesByKey& entries) {
  EntriesByKey::KeyOfEntry& first = entries.keys[position];
  StoredKey& key = *first.key;
  first.brings_reservation =
      BringsReservation(state, key, request, request.entries[position]);
  if (first.brings_reservation) entries.new_value_bytes += key.value_bytes();
}

// Returns how many bytes the entry stands for; 0 if it is not encoded.
// REQUIRES: it fits its key, so that it takes no more than a value.
uint64_t ExpandedBytes(const PushEntry& entry) {
  if (entry.skip || !entry.encoding) return 0;
  return entry.shape().num_elements() * SizeOf(entry.dtype());
}

absl::Status CheckExpansion(const PushRequest& request,
                            uint64_t repeated_bytes) {
  if (repeated_bytes == 0) return absl::OkStatus();
  uint64_t bytes = request.entries.size() * kEntryBytes;
  for (const PushEntry& entry : request.entries) {
    if (!entry.skip) bytes = SumOfBytes(bytes, entry.tensor.size_bytes());
  }
  if (repeated_bytes / kMaxExpansion <= bytes) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "encoded entries whose key has another one in the call: expected to "
          "decode to at most ",
          kMaxExpansion, " times the ", bytes, " bytes of the call, got ",
          repeated_bytes, " bytes; push them in calls of their own")),
      Reason::kLimitReached, {{"limit", kMaxExpansion}});
}

// Checks that a key that is not summed gets one tensor of each worker.
absl::Status CheckIsOnlyTensor(const PushEntry& entry, bool is_only) {
  if (is_only && !entry.rows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "key ", Quoted(entry.key),
      ": expected one whole tensor in a namespace whose contributions are not "
      "summed, got ",
      entry.rows ? "rows" : "two entries"));
}

// Checks that what is brought for a key has one weight.
absl::Status CheckWeights(const PushRequest& request,
                          const EntriesByKey& entries) {
  for (uint32_t first = 0; first < entries.keys.size(); ++first) {
    if (!entries.keys[first].is_first) continue;
    std::optional<double> weight;
    double other = 0;
    bool differs = false;
    entries.ForEach(first, [&](uint32_t i) {
      const PushEntry& entry = request.entries[i];
      if (entry.skip || differs) return;
      if (!weight) weight = entry.weight;
      other = entry.weight;
      differs = other != *weight;
    });
    if (!differs) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("key ", Quoted(request.entries[first].key),
                     ": weight: expected one of a call's entries for a key, "
                     "got ",
                     *weight, " and ", other));
  }
  return absl::OkStatus();
}

// Adds the bytes of decoded contributions, but of none that is there already.
void AddDecodedBytes(const NamespaceState& state, const PushRequest& request,
                     EntriesByKey& entries) {
  for (uint32_t i = 0; i < entries.keys.size(); ++i) {
    const EntriesByKey::KeyOfEntry& first = entries.keys[i];
    if (!first.is_first || first.is_repeat) continue;
    entries.ForEach(i, [&](uint32_t position) {
      entries.decoded_bytes = SumOfBytes(
          entries.decoded_bytes,
          DecodedBytes(state, *first.key, request.entries[position]));
    });
  }
}

void AddSumBytes(const NamespaceState& state, const PushRequest& request,
                 EntriesByKey& entries) {
  for (uint32_t i = 0; i < entries.keys.size(); ++i) {
    const EntriesByKey::KeyOfEntry& first = entries.keys[i];
    if (!first.is_first || first.is_repeat) continue;
    const auto bytes = SumBytes(state, request, entries, i);
    if (!bytes) continue;
    entries.sum_bytes = SumOfBytes(entries.sum_bytes, *bytes);
    entries.has_sums = true;
  }
}

// Sets StoredKey::position_in_call of the keys; the caller resets them.
absl::Status AddEntries(const NamespaceState& state, const PushRequest& request,
                        EntriesByKey& entries) {
  const PushMode& mode = *state.mode;
  const bool adds = Adds(state.config.aggregation);
  const bool forgets = mode.forgets_contributions();
  const bool carries = state.config.late == Late::kCarry;
  uint64_t repeated_bytes = 0;
  for (uint32_t i = 0; i < entries.keys.size(); ++i) {
    StoredKey& key = *entries.keys[i].key;
    const PushEntry& entry = request.entries[i];
    if (i + kKeysAhead < entries.keys.size()) {
      __builtin_prefetch(entries.keys[i + kKeysAhead].key);
    }
    if (!IsWholeTensor(key, entry)) {
      RETURN_IF_ERROR(CheckEntry(key, entry));
      entries.has_rows |= bool{entry.rows};
    }
    const uint32_t last = key.position_in_call;
    key.position_in_call = i + 1;
    if (!adds) RETURN_IF_ERROR(CheckIsOnlyTensor(entry, last == 0));
    if (last > 0) {
      entries.keys[last - 1].next = i;
      entries.has_several = true;
      repeated_bytes = SumOfBytes(repeated_bytes, ExpandedBytes(entry));
      continue;
    }
    entries.keys[i].is_first = true;
    if (!forgets) RETURN_IF_ERROR(CheckRepeat(mode, request, i, entries));
    if (entries.keys[i].is_repeat) continue;
    if (carries) RETURN_IF_ERROR(CheckMayCarry(state, key, request));
    AddReservation(state, request, i, entries);
  }
  return CheckExpansion(request, repeated_bytes);
}

}  // namespace

uint64_t DecodedBytes(const NamespaceState& state, const StoredKey& key,
                      const PushEntry& entry) {
  if (!state.config.mirrored || BringsNothing(entry) || !entry.encoding) {
    return 0;
  }
  return key.num_elements() * SizeOf(AccumulateType(key.dtype()));
}

// Rank 0 is the first to be added, but in the order of arrival and where it may
// be late; a weight multiplies the sum of the first worker's, too.
bool MayNeedSums(const NamespaceState& state, const PushRequest& request) {
  const bool comes_first = state.config.sum_order == SumOrder::kRank &&
                           state.config.late == Late::kRefuse &&
                           request.worker && request.worker->rank == 0;
  return !state.mode->applies_at_once() && Adds(state.config.aggregation) &&
         request.worker && (state.has_means() || !comes_first);
}

std::optional<uint64_t> SumBytes(const NamespaceState& state,
                                 const PushRequest& request,
                                 const EntriesByKey& entries, uint32_t first) {
  if (!MayNeedSums(state, request)) return std::nullopt;
  const StoredKey& key = *entries.keys[first].key;
  int num_tensors = 0;
  int64_t num_elements = 0;
  bool has_repeats = false;
  entries.ForEach(first, [&](uint32_t i) {
    const PushEntry& entry = request.entries[i];
    if (BringsNothing(entry)) return;
    ++num_tensors;
    num_elements += entry.rows ? entry.rows->size() * key.num_elements_of_row()
                               : key.num_elements();
    has_repeats |= entry.rows && entry.rows->has_repeats();
  });
  if (num_tensors < 2 && !has_repeats) return std::nullopt;
  return std::min(num_elements, key.num_elements()) *
         SizeOf(AccumulateType(key.dtype()));
}

absl::StatusOr<EntriesByKey> GroupByKey(const NamespaceState& state,
                                        const PushRequest& request) {
  EntriesByKey entries;
  RETURN_IF_ERROR(FindKeys(state, request, entries));
  const absl::Status status = AddEntries(state, request, entries);
  for (const auto& entry : entries.keys) entry.key->position_in_call = 0;
  RETURN_IF_ERROR(status);
  if (entries.has_several && state.has_means()) {
    RETURN_IF_ERROR(CheckWeights(request, entries));
  }
  if (state.config.mirrored) AddDecodedBytes(state, request, entries);
  const bool may_have_sums = entries.has_several || entries.has_rows;
  if (may_have_sums && MayNeedSums(state, request)) {
    AddSumBytes(state, request, entries);
  }
  return entries;
}

}  // namespace tensorkv

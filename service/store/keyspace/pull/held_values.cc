#include "service/store/keyspace/pull/held_values.h"

#include <utility>

#include "service/store/keyspace/pull/value_token.h"
#include "service/store/keyspace/snapshots/named_snapshots.h"

namespace tensorkv {
namespace {

// Smaller values always come whole: a delta would not pay for its place in the
// cache.
constexpr int64_t kLeastDeltaBytes = 1 << 10;

template <DeltaEncoding kEncoding, v1::DeltaEncoding kNumber>
constexpr bool kIsNumbered = static_cast<int>(kEncoding) ==
                             static_cast<int>(kNumber);
static_assert(
    kIsNumbered<DeltaEncoding::kUnchanged, v1::DELTA_ENCODING_UNCHANGED> &&
    kIsNumbered<DeltaEncoding::kWhole, v1::DELTA_ENCODING_WHOLE> &&
    kIsNumbered<DeltaEncoding::kSparse, v1::DELTA_ENCODING_SPARSE> &&
    kIsNumbered<DeltaEncoding::kXorZstd, v1::DELTA_ENCODING_XOR_ZSTD> &&
    kIsNumbered<DeltaEncoding::kOneUlp, v1::DELTA_ENCODING_ONE_ULP> &&
    kIsNumbered<DeltaEncoding::kOneUlpZstd, v1::DELTA_ENCODING_ONE_ULP_ZSTD> &&
    kNumDeltaEncodings == v1::DeltaEncoding_ARRAYSIZE);

// Returns the value that the key had, or has, with that version; without data
// if it is not there any more.
Tensor FindVersion(const NamespaceState& state, absl::string_view key,
                   Version version, uint64_t revision, bool may_be_present) {
  if (may_be_present) {
    const StoredKey* const stored = state.keys.Find(key);
    if (stored != nullptr && stored->version == version) {
      return stored->value_is_changing ? Tensor() : stored->ToTensor();
    }
  }
  const FormerValue* const former =
      state.named->FindVersion(key, version, revision);
  return former == nullptr ? Tensor() : former->value;
}

}  // namespace

HeldValues::HeldValues(const NamespaceState& state, const PullRequest& request)
    : incarnation_(state.tokens.incarnation()), dtype_(request.dtype) {
  for (const int encoding : request.changes->encodings()) {
    if (encoding < 0 || encoding >= kNumDeltaEncodings) continue;
    encodings_.Add(static_cast<DeltaEncoding>(encoding));
    // Elements are compared on the host, so that there are no deltas of those
    // of a device.
    wants_deltas_ = state.device().is_host();
  }
  entries_.reserve(request.entries.size());
  for (const PullEntry& entry : request.entries) {
    Entry& added = entries_.emplace_back();
    added.key_hash = state.tokens.HashOf(entry.key);
    const auto token = ValueToken::Parse(entry.held);
    if (!token || token->incarnation != incarnation_ ||
        token->key_hash != added.key_hash) {
      continue;
    }
    added.shown = Shown{token->version, token->revision, token->dtype};
  }
}

void HeldValues::Look(const NamespaceState& state, absl::string_view key,
                      size_t index, const Value& value, uint64_t revision,
                      bool is_present) {
  Entry& entry = entries_[index];
  entry.revision = revision;
  if (!wants_deltas_ || !entry.shown || entry.shown->dtype != DTypeOf(value) ||
      entry.shown->version == value.version ||
      value.tensor.size_bytes() < kLeastDeltaBytes) {
    return;
  }
  Tensor held = FindVersion(state, key, entry.shown->version,
                            entry.shown->revision, !is_present);
  if (!held.has_data() || held.dtype() != value.tensor.dtype() ||
      held.shape() != value.tensor.shape()) {
    return;
  }
  bases_.push_back({index, std::move(held)});
}

std::vector<HeldValues::Base> HeldValues::Name(const PullRequest& request,
                                               PullReply& reply) && {
  for (size_t i = 0; i < reply.values.size(); ++i) {
    const Entry& entry = entries_[i];
    Value& value = reply.values[i];
    const ValueToken token = {.incarnation = incarnation_,
                              .key_hash = entry.key_hash,
                              .version = value.version,
                              .revision = entry.revision,
                              .dtype = DTypeOf(value)};
    auto change = MakeRefCounted<ValueChange>();
    change->token = token.ToString();
    change->unchanged = entry.shown && entry.shown->dtype == token.dtype &&
                        entry.shown->version == token.version;
    if (change->unchanged) value.tensor = Tensor();
    value.change = std::move(change);
  }
  std::vector<Base> bases;
  bases.reserve(bases_.size());
  for (Former& former : bases_) {
    const Value& value = reply.values[former.index];
    const DType dtype = DTypeOf(value);
    bases.push_back({former.index,
                     std::move(former.held),
                     {.incarnation = incarnation_,
                      .key = request.entries[former.index].key,
                      .from = entries_[former.index].shown->version,
                      .to = value.version,
                      .dtype = dtype,
                      .encodings = encodings_.ForElementsOf(SizeOf(dtype))}});
  }
  return bases;
}

}  // namespace tensorkv

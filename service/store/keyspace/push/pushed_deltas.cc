#include "service/store/keyspace/push/pushed_deltas.h"

#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/pull/value_token.h"
#include "service/store/keyspace/push/push_check.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/names.h"
#include "tensor/bool_elements.h"
#include "tensor/delta/delta_decoder.h"
#include "tensor/delta/delta_scratch.h"

namespace tensorkv {
namespace {

// Bounds the bytes that a thread decodes before others have it: some 10 ms.
constexpr size_t kDecodedPerTask = 16 << 20;
// What an entry costs besides its blocks is as much as so many bytes.
constexpr size_t kDecodedPerItem = 4 << 10;

absl::Status NotTaken(const PushEntry& entry, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(
      "key ", Quoted(entry.key),
      ": expected a delta, or a tensor that gets a token, ", expected));
}

// Returns whether the key has that value, and an update that is admitted now
// finds it.
bool HasValue(const StoredKey& key, const DeltaBase& base) {
  return key.version == base.version && key.dtype() == base.dtype &&
         !key.runs_update && key.num_updates_ahead() == 0;
}

absl::Status BaseChanged(const PushEntry& entry, Version version) {
  return WithReason(
      absl::AbortedError(absl::StrCat(
          "key ", Quoted(entry.key), ": expected a delta from the value that ",
          "it has when the call takes effect, now version ", version,
          "; got one from another value")),
      Reason::kBaseChanged, {{"key", entry.key}});
}

// Checks that the entry's tensor becomes the value of its key as it is.
absl::Status CheckIsValue(const NamespaceState& state, const PushEntry& entry,
                          const EntriesByKey::KeyOfEntry& of) {
  if (state.is_guarded) {
    return NotTaken(entry, "in a namespace without gradient guard");
  }
  if (of.key->rule->kind() != RuleKind::kAssign) {
    return NotTaken(entry, "for a key with the rule assign");
  }
  if (!of.is_first || of.next != 0) {
    return NotTaken(entry, "alone for its key in the call");
  }
  if (entry.encoding || entry.rows || entry.weight != 1) {
    return NotTaken(entry, "whole, without encoding and without weight");
  }
  if (entry.delta || entry.dtype() == of.key->dtype()) return absl::OkStatus();
  return NotTaken(entry, absl::StrCat("of the dtype ", NameOf(of.key->dtype()),
                                      " that is stored"));
}

absl::Status Malformed(const PushEntry& entry, absl::string_view message) {
  return WithReason(absl::InvalidArgumentError(
                        absl::StrCat("key ", Quoted(entry.key), ": ", message)),
                    Reason::kDeltaMalformed, {{"key", entry.key}});
}

absl::string_view BytesOf(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.size_bytes())};
}

// One delta from its first block to the last.
class DeltaSteps {
 public:
  // `from` and `to`, of the same dtype and shape, outlive it, as does `entry`.
  DeltaSteps(const PushEntry* entry, const Tensor* from, Tensor* to)
      : entry_(*entry),
        from_(*from),
        to_(*to),
        hash_(XXH3_createState(), &XXH3_freeState) {
    XXH3_64bits_reset(hash_.get());
  }

  // Decodes the next block, and returns how many bytes it has; 0 where none is
  // left and the whole has the digest that the entry says. Errors:
  // InvalidArgument (DELTA_MALFORMED).
  absl::StatusOr<size_t> Next(DeltaScratch& scratch) {
    absl::StatusOr<size_t> bytes = Decode(scratch);
    if (bytes.ok()) return bytes;
    return Malformed(entry_, bytes.status().message());
  }

 private:
  absl::StatusOr<size_t> Decode(DeltaScratch& scratch) {
    if (!decoder_) {
      ASSIGN_OR_RETURN(
          decoder_, DeltaDecoder::Create(BytesOf(entry_.tensor), from_.view()));
    }
    if (next_ == decoder_->num_blocks()) {
      if (XXH3_64bits_digest(hash_.get()) == entry_.delta->digest) return 0;
      return absl::InvalidArgumentError(
          "delta: the result has another digest than it was told");
    }
    char* const to = to_.mutable_data();
    RETURN_IF_ERROR(decoder_->DecodeBlock(next_, to, scratch));
    const absl::string_view block = {to + next_ * kDeltaBlockBytes,
                                     DeltaBlockBytes(to_.size_bytes(), next_)};
    RETURN_IF_ERROR(CheckBoolElements(to_.dtype(), block));
    XXH3_64bits_update(hash_.get(), block.data(), block.size());
    ++next_;
    return block.size();
  }

  const PushEntry& entry_;
  const Tensor& from_;
  Tensor& to_;
  std::optional<DeltaDecoder> decoder_;
  size_t next_ = 0;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
};

// The deltas of one push, from the call to its whole tensors. Used by one
// thread after another.
class Decoding {
 public:
  using Admit = absl::AnyInvocable<void(PushCall) &&>;

  Decoding(NamespaceState& state, PushCall call, Admit admit)
      : state_(state.shared_from_this()),
        call_(std::move(call)),
        share_(call_.context.share.lock()),
        admit_(std::move(admit)) {}

  // Decodes some blocks here, and leaves the others to the pool. Whoever
  // decodes the last one ends the call or has it admitted.
  static void Run(std::unique_ptr<Decoding> decoding) {
    const absl::StatusOr<bool> has_ended = decoding->Work();
    if (has_ended.ok() && !*has_ended) {
      NamespaceState& state = *decoding->state_;
      return state.Run([decoding = std::move(decoding)]() mutable {
        Run(std::move(decoding));
      });
    }
    if (has_ended.ok()) decoding->Put();
    // Nothing of this is kept while the push goes on.
    Admit admit = std::move(decoding->admit_);
    PushCall call = std::move(decoding->call_);
    const std::shared_ptr<NamespaceState> state = decoding->state_;
    const std::shared_ptr<const void> share = decoding->share_;
    decoding = nullptr;
    if (!has_ended.ok()) return std::move(call.done)(has_ended.status());
    std::move(admit)(std::move(call));
  }

 private:
  // An entry that is a delta, the value that it builds on, and what it becomes.
  struct Item {
    size_t index = 0;
    Tensor from;
    Tensor to;
  };

  // Returns whether all is decoded. The scratch goes with the task: so there
  // are few, however many pushes wait for a thread.
  absl::StatusOr<bool> Work() {
    RETURN_IF_ERROR(has_begun_ ? CheckNext() : Begin());
    const auto& cancellation = call_.context.cancellation;
    if (cancellation && cancellation->is_cancelled()) {
      return absl::CancelledError("the caller has given up");
    }
    DeltaScratch scratch;
    for (size_t done = 0; next_ < items_.size();) {
      if (done >= kDecodedPerTask) return false;
      if (!steps_) {
        Item& item = items_[next_];
        steps_.emplace(&call_.request.entries[item.index], &item.from,
                       &item.to);
        done += kDecodedPerItem;
      }
      ASSIGN_OR_RETURN(const size_t bytes, steps_->Next(scratch));
      done += bytes;
      if (bytes > 0) continue;
      steps_.reset();
      ++next_;
    }
    return true;
  }

  // Takes the values that the deltas build on, and memory for those that they
  // become.
  absl::Status Begin() {
    has_begun_ = true;
    const PushRequest& request = call_.request;
    call_.bases = BasesOf(*state_, request);
    const RefPtr<BudgetAccount>& account = state_->memory.host().contributions;
    ASSIGN_OR_RETURN(
        delta_bytes_,
        Reservation::Create(account, UncountedBytes(state_->memory, request)));
    {
      MutexLock lock(&state_->mutex);
      ASSIGN_OR_RETURN(const EntriesByKey entries, CheckKeys(*state_, request));
      RETURN_IF_ERROR(CheckBases(*state_, request, entries, call_.bases));
      for (size_t i = 0; i < request.entries.size(); ++i) {
        if (call_.bases[i].version == 0) continue;
        const EntriesByKey::KeyOfEntry& of = entries.keys[i];
        // It must not count if what is there already has gone by then.
        if (of.is_repeat) call_.bases[i].version = kNoVersion;
        if (!of.is_repeat) items_.push_back({i, of.key->ToTensor(), Tensor()});
      }
    }
    std::vector<Tensor*> wholes;
    for (Item& item : items_) {
      ASSIGN_OR_RETURN(
          item.to, Tensor::WithoutData(item.from.dtype(), item.from.shape()));
      wholes.push_back(&item.to);
    }
    return AllocateStaged(account, wholes);
  }

  // Checks that the key which is decoded has its base yet, so that of many
  // deltas from one base those that come too late end early.
  absl::Status CheckNext() const {
    const Item& item = items_[next_];
    const PushEntry& entry = call_.request.entries[item.index];
    MutexLock lock(&state_->mutex);
    const StoredKey* const key = state_->keys.Find(entry.key);
    if (key == nullptr) return state_->NoSuchKey(entry.key);
    if (HasValue(*key, call_.bases[item.index])) return absl::OkStatus();
    return BaseChanged(entry, key->version);
  }

  // Has the entries bring the whole tensors. They keep `delta`: whether the
  // keys take them, their bases say.
  void Put() {
    for (Item& item : items_) {
      call_.request.entries[item.index].tensor = std::move(item.to);
    }
  }

  const std::shared_ptr<NamespaceState> state_;
  PushCall call_;
  const std::shared_ptr<const void> share_;
  Admit admit_;
  bool has_begun_ = false;
  // Counts the deltas until they are decoded.
  Reservation delta_bytes_;
  std::vector<Item> items_;
  // Is the item that is being decoded.
  size_t next_ = 0;
  // Nothing between two items.
  std::optional<DeltaSteps> steps_;
};

}  // namespace

bool HasDeltas(const PushRequest& request) {
  return std::any_of(request.entries.begin(), request.entries.end(),
                     [](const PushEntry& entry) { return bool{entry.delta}; });
}

absl::Status CheckDelta(const NamespaceState& state, const PushEntry& entry) {
  if (!state.mode->applies_at_once()) {
    return NotTaken(entry, "in MODE_ASYNC and MODE_BOUNDED alone");
  }
  if (entry.skip || entry.encoding || entry.rows || entry.weight != 1) {
    return NotTaken(entry,
                    "of a whole tensor, without encoding and without weight");
  }
  if (entry.dtype() != DType::kU8 || entry.shape().rank() != 1) {
    return Malformed(entry,
                     absl::StrCat("delta: expected u8 of rank 1, got ",
                                  Description(entry.dtype(), entry.shape())));
  }
  if (state.device().is_host()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "key ", Quoted(entry.key),
      ": expected a whole tensor where values are on a GPU, got a delta"));
}

std::vector<DeltaBase> BasesOf(const NamespaceState& state,
                               const PushRequest& request) {
  if (!HasDeltas(request)) return {};
  std::vector<DeltaBase> bases(request.entries.size());
  for (size_t i = 0; i < bases.size(); ++i) {
    const PushEntry& entry = request.entries[i];
    if (!entry.delta) continue;
    bases[i].version = kNoVersion;
    const auto token = ValueToken::Parse(entry.delta->base);
    if (token && token->incarnation == state.tokens.incarnation() &&
        token->key_hash == state.tokens.HashOf(entry.key) &&
        token->version != 0) {
      bases[i] = {token->version, token->dtype};
    }
  }
  return bases;
}

absl::Status CheckBases(const NamespaceState& state, const PushRequest& request,
                        const EntriesByKey& entries,
                        absl::Span<const DeltaBase> bases) {
  if (!request.with_tokens && bases.empty()) return absl::OkStatus();
  for (size_t i = 0; i < entries.keys.size(); ++i) {
    const PushEntry& entry = request.entries[i];
    const EntriesByKey::KeyOfEntry& of = entries.keys[i];
    const bool builds = !bases.empty() && bases[i].version != 0;
    if (entry.skip || of.is_repeat || (!request.with_tokens && !builds)) {
      continue;
    }
    if (builds && !HasValue(*of.key, bases[i])) {
      return BaseChanged(entry, of.key->version);
    }
    RETURN_IF_ERROR(CheckIsValue(state, entry, of));
  }
  return absl::OkStatus();
}

uint64_t BytesOfWholes(const EntriesByKey& entries,
                       absl::Span<const DeltaBase> bases) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < bases.size(); ++i) {
    const EntriesByKey::KeyOfEntry& of = entries.keys[i];
    if (bases[i].version == 0 || of.is_repeat) continue;
    bytes = SumOfBytes(bytes, of.key->value_bytes());
  }
  return bytes;
}

void DecodeDeltas(NamespaceState& state, PushCall call,
                  absl::AnyInvocable<void(PushCall) &&> admit) {
  Decoding::Run(
      std::make_unique<Decoding>(state, std::move(call), std::move(admit)));
}

}  // namespace tensorkv

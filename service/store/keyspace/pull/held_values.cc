#include "service/store/keyspace/pull/held_values.h"

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "service/store/keyspace/pull/delta_job.h"
#include "service/store/keyspace/pull/pull_cast.h"
#include "service/store/keyspace/snapshots/named_snapshots.h"
#include "service/store/looks.h"

namespace tensorkv {
namespace {

// Calls whose deltas compare no more bytes make them where they are.
constexpr uint64_t kMostComparedInline = 256 << 10;

RefPtr<const ValueChange> ChangeOf(std::string token, bool unchanged,
                                   std::optional<Delta> delta) {
  auto change = MakeRefCounted<ValueChange>();
  change->token = std::move(token);
  change->unchanged = unchanged;
  change->delta = delta;
  return change;
}

ChangeCounts CountsOf(const PullReply& reply) {
  ChangeCounts counts;
  for (const Value& value : reply.values) {
    const auto bytes = static_cast<uint64_t>(value.tensor.size_bytes());
    if (value.change->unchanged) {
      ++counts.unchanged;
    } else if (value.change->delta) {
      ++counts.deltas;
      counts.delta_bytes += bytes;
    } else {
      ++counts.wholes;
      counts.whole_bytes += bytes;
    }
  }
  return counts;
}

// One reply, from what was read to the answer. The deltas come on any threads,
// each for another value.
class ChangesReply : public std::enable_shared_from_this<ChangesReply> {
 public:
  ChangesReply(NamespaceState& state, ReplyTerms terms, PullReply reply,
               ReplyCallback<PullReply> done)
      : state_(state.shared_from_this()),
        terms_(std::move(terms)),
        reply_(std::move(reply)),
        done_(std::move(done)) {}

  void Run(std::vector<HeldValues::Base> bases) {
    uint64_t compared = 0;
    for (const HeldValues::Base& base : bases) {
      compared += base.held.size_bytes();
    }
    const bool is_small = compared <= kMostComparedInline;
    num_awaited_ = bases.size() + 1;
    for (HeldValues::Base& base : bases) {
      // A reply may have it before this returns.
      Tensor value = reply_.values[base.index].tensor;
      const bool makes_it = state_->deltas->Get(
          base.id,
          [self = shared_from_this(), index = base.index](
              const MadeDeltaPtr& delta) { self->Take(index, delta); });
      if (!makes_it) continue;
      MakeDelta(state_, base.id, std::move(base.held), std::move(value),
                is_small);
    }
    EndOne();
  }

 private:
  void Take(size_t index, const MadeDeltaPtr& delta) {
    if (delta) {
      Value& value = reply_.values[index];
      value.tensor = delta->bytes;
      value.change = ChangeOf(value.change->token, /*unchanged=*/false,
                              Delta{.digest = delta->digest});
    }
    EndOne();
  }

  // The last answers.
  void EndOne() {
    if (num_awaited_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    std::optional<PullCast> cast;
    if (terms_.dtype != DType::kUnknown) cast.emplace(terms_.dtype, reply_);
    absl::Status status = CheckReplyBytes(reply_, terms_.max_bytes);
    if (!status.ok()) {
      cast.reset();
      reply_ = {};
      return std::move(done_)(std::move(status));
    }
    state_->deltas->Count(CountsOf(reply_));
    if (!cast) {
      return state_->tensor_placement->Send(std::move(reply_),
                                            std::move(done_));
    }
    SendCast(*state_, {.cancellation = std::move(terms_.cancellation)},
             *std::move(cast), std::move(reply_), std::move(done_));
  }

  const std::shared_ptr<NamespaceState> state_;
  ReplyTerms terms_;
  PullReply reply_;
  ReplyCallback<PullReply> done_;
  std::atomic<size_t> num_awaited_{0};
};

}  // namespace

HeldValues::HeldValues(const PullRequest& request) : dtype_(request.dtype) {
  for (const int encoding : request.changes->encodings()) {
    if (encoding < 0 || encoding >= kNumDeltaEncodings) continue;
    encodings_.Add(static_cast<DeltaEncoding>(encoding));
    wants_deltas_ = true;
  }
}

void HeldValues::Add(const NamespaceState& state, const PullEntry& entry,
                     uint64_t revision, PullReply& reply) {
  Value& value = reply.values.back();
  const ValueToken token = {
      .incarnation = state.deltas->incarnation(),
      .key_hash = TokenHashOf(entry.key),
      .version = value.version,
      .revision = revision,
      .dtype = dtype_ == DType::kUnknown ? value.tensor.dtype() : dtype_};
  const auto held = ValueToken::Parse(entry.held);
  const bool is_known = held && held->IsLike(token);
  const bool unchanged = is_known && held->version == value.version;
  value.change = ChangeOf(token.ToString(), unchanged, std::nullopt);
  if (unchanged) value.tensor = Tensor();
  // Of a device there are none: elements are compared on the host.
  if (!is_known || unchanged || !wants_deltas_ || !state.device().is_host()) {
    return;
  }
  Tensor base = FindHeld(state, entry.key, *held);
  if (!base.has_data() || base.dtype() != value.tensor.dtype() ||
      base.shape() != value.tensor.shape() || base.size_bytes() == 0) {
    return;
  }
  bases_.push_back({.index = reply.values.size() - 1,
                    .held = std::move(base),
                    .id = {.key = entry.key,
                           .from = held->version,
                           .to = value.version,
                           .dtype = token.dtype,
                           .encodings = encodings_}});
}

Tensor HeldValues::FindHeld(const NamespaceState& state, absl::string_view key,
                            const ValueToken& token) {
  CountLook();
  const StoredKey* const stored = state.keys.Find(key);
  if (stored != nullptr && stored->version == token.version) {
    return stored->value_is_changing ? Tensor() : stored->ToTensor();
  }
  const FormerValue* const former =
      state.named->FindFormer(key, token.revision);
  if (former == nullptr || former->version != token.version) return {};
  return former->value;
}

void SendChanges(NamespaceState& state, ReplyTerms terms, HeldValues held,
                 PullReply reply, ReplyCallback<PullReply> done) {
  std::make_shared<ChangesReply>(state, std::move(terms), std::move(reply),
                                 std::move(done))
      ->Run(std::move(held).TakeBases());
}

}  // namespace tensorkv

// Stat: tells of keys by name, and makes digests of their values.

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/key_status.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull/pull_call.h"
#include "service/store/keyspace/snapshots/call_at_snapshot.h"
#include "service/store/keyspace/snapshots/list_at.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds the statuses of a call for keys by name.
constexpr uint64_t kMaxStatBytes = 64 << 20;
// Values that are pulled together for their digests.
constexpr uint64_t kPulledBytes = 64 << 20;
// What a thread of the pool hashes, in about 2 ms, before others have it.
constexpr uint64_t kHashedBytes = 16 << 20;
// Digests of all namespaces share the pool as one namespace does: no name of
// one begins so.
constexpr absl::string_view kOwnerOfDigests = "\1digests";

absl::Status CheckStatBytes(uint64_t bytes, size_t num_keys) {
  if (bytes <= kMaxStatBytes) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        "statuses of the reply: expected at most ",
                        kMaxStatBytes, " bytes, got ", bytes, " for the first ",
                        num_keys, " keys; ask for fewer keys in one call")),
                    Reason::kReplyTooLarge,
                    {{"needed", bytes}, {"available", kMaxStatBytes}});
}

// One Stat from its call to its answer. Kept by what it waits for; used by one
// thread at a time.
class StatCall : public std::enable_shared_from_this<StatCall> {
 public:
  StatCall(std::shared_ptr<NamespaceState> state, StatRequest request,
           CallContext context, ReplyCallback<StatReply> done)
      : state_(std::move(state)),
        request_(std::move(request)),
        context_(std::move(context)),
        end_(state_->Now() + context_.timeout),
        done_(std::move(done)),
        hash_(XXH3_createState(), &XXH3_freeState) {}

  void Run() {
    if (!request_.has_at()) return GoOn(ReadKeys());
    // The keys are read of the snapshot that is found now.
    StartAtSnapshot<uint64_t>(
        *state_, request_.at(), context_,
        [](const NamedSnapshot& snapshot) { return snapshot.number; },
        [self = shared_from_this()](absl::StatusOr<uint64_t> number) {
          if (!number.ok()) return self->End(number.status());
          self->at_ = SnapshotOf(self->request_.at().series(), *number);
          self->at_->set_uid(self->request_.at().uid());
          self->GoOn(self->ReadKeys());
        },
        {.num_keys = static_cast<size_t>(request_.keys_size()),
         .bytes = request_.SpaceUsedLong()});
  }

 private:
  // Reads what there is of the keys but their values.
  absl::Status ReadKeys();
  // Returns what there is of one, which `fence` is about unless it is null; the
  // mutex is held. Errors: those of CheckRead · NotFound.
  absl::StatusOr<KeyMetadata> Read(const KeyFence::View* fence,
                                   const std::string& name) const;
  // Ends the call, or makes the digests.
  void GoOn(const absl::Status& status) {
    if (!status.ok() || !request_.compute_digests()) return End(status);
    PullNext();
  }
  // Checks that the digests are still wanted.
  absl::Status CheckGoesOn() const;
  // Pulls the next values, as any reader does, and has the pool hash them: what
  // is told is what was read, as version, count and digest belong together.
  // Waits for no more than an update under way.
  void PullNext();
  // Hashes some of what was pulled, and goes on in another task.
  void HashSome();
  void HashOnPool();
  // Takes over what was read of the key at `next_`.
  void SetRead(const Value& value, uint64_t update_count);
  void End(const absl::Status& status);

  const std::shared_ptr<NamespaceState> state_;
  const StatRequest request_;
  // Names the snapshot that is read; nothing: the present keys.
  std::optional<SnapshotReference> at_;
  CallContext context_;
  const absl::Duration end_;
  ReplyCallback<StatReply> done_;
  std::vector<KeyMetadata> keys_;
  // The next key whose digest is to be made, and where those before are, which
  // are read once however often the call names them.
  size_t next_ = 0;
  absl::flat_hash_map<absl::string_view, size_t> read_;
  // The values of the keys that come next, the last first, and their counts.
  std::vector<Value> values_;
  std::vector<uint64_t> update_counts_;
  // How much of the next value is hashed.
  uint64_t num_hashed_ = 0;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
};

absl::StatusOr<KeyMetadata> StatCall::Read(const KeyFence::View* fence,
                                           const std::string& name) const {
  if (at_) {
    ASSIGN_OR_RETURN(const NamedSnapshot* const snapshot,
                     FindSnapshot(*state_, *at_));
    return MetadataAt(*state_, *snapshot, name);
  }
  if (fence != nullptr) RETURN_IF_ERROR(fence->CheckRead(state_->name, name));
  const StoredKey* key = state_->keys.Find(name);
  if (key == nullptr) return state_->NoSuchKey(name);
  return MetadataOf(*key);
}

absl::Status StatCall::ReadKeys() {
  const auto& names = request_.keys();
  RETURN_IF_ERROR(state_->CheckNumEntries(names.size()));
  if (request_.allow_missing() && request_.at().uid() == 0) {
    return absl::InvalidArgumentError(
        "allow_missing: expected it of a share of a snapshot alone");
  }
  for (const std::string& name : names) RETURN_IF_ERROR(CheckKey(name));
  keys_.reserve(names.size());
  uint64_t bytes = 0;
  const bool is_large = static_cast<size_t>(names.size()) > kKeysPerLock;
  for (auto name = names.begin(); name != names.end();) {
    std::unique_lock<FairMutex> large_lock;
    if (is_large) large_lock = std::unique_lock(state_->large_calls_mutex);
    MutexLock lock(&state_->mutex);
    const auto fence = state_->Fence();
    for (size_t i = 0; i < kKeysPerLock && name != names.end(); ++i) {
      absl::StatusOr<KeyMetadata> key = Read(fence.get(), *name++);
      const bool is_left_out = request_.allow_missing() &&
                               ReasonOf(key.status()) == Reason::kKeyNotFound;
      if (is_left_out) continue;
      RETURN_IF_ERROR(key.status());
      keys_.push_back(*std::move(key));
      bytes += StatusBytes(keys_.back());
      RETURN_IF_ERROR(CheckStatBytes(bytes, keys_.size()));
    }
  }
  return absl::OkStatus();
}

absl::Status StatCall::CheckGoesOn() const {
  RETURN_IF_ERROR(CheckIsWanted(*state_, context_));
  if (state_->Now() < end_) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("namespace ", Quoted(state_->name), ": digests of ", next_,
                   " keys were made, and of ", keys_.size() - next_,
                   " were to follow, the next ", Quoted(keys_[next_].name)));
}

void StatCall::PullNext() {
  while (next_ < keys_.size()) {
    const auto before = read_.find(keys_[next_].name);
    if (before == read_.end()) break;
    keys_[next_++] = keys_[before->second];
  }
  if (next_ == keys_.size()) return End(absl::OkStatus());
  if (absl::Status status = CheckGoesOn(); !status.ok()) return End(status);
  PullRequest pull;
  pull.at = at_;
  uint64_t bytes = 0;
  absl::flat_hash_set<absl::string_view> pulled;
  for (size_t i = next_; i < keys_.size(); ++i) {
    const KeyMetadata& key = keys_[i];
    bytes += key.value_bytes;
    const bool is_full = !pull.entries.empty() && bytes > kPulledBytes;
    if (is_full || read_.contains(key.name) ||
        !pulled.insert(key.name).second) {
      break;
    }
    pull.entries.push_back({key.name, 0});
  }
  CallContext context = {.caller = context_.caller,
                         .timeout = end_ - state_->Now(),
                         .cancellation = context_.cancellation};
  StartPull(
      *state_, std::move(pull), UINT64_MAX, std::move(context), &update_counts_,
      [self = shared_from_this()](absl::StatusOr<PullReply> reply) {
        if (!reply.ok()) return self->End(reply.status());
        self->values_ = std::move(reply->values);
        std::reverse(self->values_.begin(), self->values_.end());
        self->update_counts_.resize(self->values_.size());
        std::reverse(self->update_counts_.begin(), self->update_counts_.end());
        self->HashOnPool();
      });
}

void StatCall::HashOnPool() {
  TaskPool::Task hash = [self = shared_from_this(),
                         share = context_.share.lock()] { self->HashSome(); };
  if (!state_->environment.pool->Submit(kOwnerOfDigests, std::move(hash))) {
    std::move(hash)();
  }
}

void StatCall::HashSome() {
  uint64_t budget = kHashedBytes;
  while (!values_.empty() && budget > 0) {
    const Tensor& tensor = values_.back().tensor;
    const auto size = static_cast<uint64_t>(tensor.size_bytes());
    if (num_hashed_ == 0) XXH3_64bits_reset(hash_.get());
    const uint64_t bytes = std::min(budget, size - num_hashed_);
    XXH3_64bits_update(hash_.get(), tensor.data() + num_hashed_, bytes);
    budget -= bytes;
    num_hashed_ += bytes;
    if (num_hashed_ < size) break;
    SetRead(values_.back(), update_counts_.back());
    values_.pop_back();
    update_counts_.pop_back();
  }
  if (values_.empty()) return PullNext();
  if (absl::Status status = CheckGoesOn(); !status.ok()) return End(status);
  HashOnPool();
}

void StatCall::SetRead(const Value& value, uint64_t update_count) {
  KeyMetadata& key = keys_[next_];
  key.dtype = value.tensor.dtype();
  key.shape = value.tensor.shape();
  key.value_bytes = value.tensor.size_bytes();
  key.version = value.version;
  key.update_count = update_count;
  key.digest = XXH3_64bits_digest(hash_.get());
  read_.emplace(key.name, next_++);
  num_hashed_ = 0;
}

// What it has pulled goes before its caller hears of the end.
void StatCall::End(const absl::Status& status) {
  values_.clear();
  context_.cancellation = nullptr;
  if (!status.ok()) return std::move(done_)(status);
  read_.clear();
  StatReply reply;
  if (at_) reply.set_snapshot_number(at_->number());
  AddStatuses(std::move(keys_), *reply.mutable_keys());
  std::move(done_)(std::move(reply));
}

}  // namespace

void Namespace::Stat(StatRequest request, CallContext context,
                     ReplyCallback<StatReply> done) {
  std::make_shared<StatCall>(state_, std::move(request), std::move(context),
                             std::move(done))
      ->Run();
}

}  // namespace tensorkv

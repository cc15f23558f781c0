#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull/pull_call.h"
#include "service/store/keyspace/rules/state_access.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

constexpr uint32_t kDefaultPageSize = 1000;
constexpr uint32_t kMaxPageSize = 10000;

// Bounds the statuses of a page, or of a call for keys by name. Each has all of
// its key's rule, which may be a long text.
constexpr uint64_t kMaxPageBytes = 4 << 20;
constexpr uint64_t kMaxStatBytes = 64 << 20;

// KeyMetadata is what is read of a key while the mutex is held. The status is
// made of it, and of a copy of the rule, without the mutex.
struct KeyMetadata {
  std::string name;
  DType dtype = DType::kUnknown;
  Shape shape;
  Version version = 0;
  uint64_t value_bytes = 0;
  uint64_t state_bytes = 0;
  uint64_t update_count = 0;
  Multipliers multipliers;
  SharedRule rule;
  std::optional<uint64_t> digest;
};

// Values that are read together for their digests.
constexpr uint64_t kDigestBytes = 64 << 20;

// Returns how many of the first keys' values are read together: one, whatever
// its size, or more.
size_t NumReadTogether(absl::Span<const KeyMetadata> keys) {
  uint64_t bytes = keys[0].value_bytes;
  size_t num_keys = 1;
  while (num_keys < keys.size() &&
         bytes + keys[num_keys].value_bytes <= kDigestBytes) {
    bytes += keys[num_keys++].value_bytes;
  }
  return num_keys;
}

KeyMetadata MetadataOf(const StoredKey& key) {
  return {.name = std::string(key.name()),
          .dtype = key.dtype(),
          .shape = key.shape(),
          .version = key.version,
          .value_bytes = key.value_bytes(),
          .state_bytes = key.rule_state ? key.rule_state->size_bytes() : 0,
          .update_count = key.num_applied(),
          .multipliers =
              key.multipliers ? Multipliers(*key.multipliers) : Multipliers(),
          .rule = key.rule};
}

// Returns what the status of the key will take, about.
uint64_t StatusBytes(const KeyMetadata& key) {
  constexpr uint64_t kStatusBytes = 128;
  constexpr uint64_t kHyperparameterBytes = 32;
  const RuleSpec& rule = key.rule->spec();
  return kStatusBytes + key.name.size() + rule.expression.size() +
         rule.schedule.steps.size() * sizeof(uint64_t) +
         (rule.hyperparameters.size() + rule.schedule.arguments.size()) *
             kHyperparameterBytes;
}

absl::Status CheckStatBytes(uint64_t bytes, size_t num_keys) {
  if (bytes <= kMaxStatBytes) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        "statuses of the reply: expected at most ",
                        kMaxStatBytes, " bytes, got ", bytes, " for the first ",
                        num_keys, " keys; ask for fewer keys in one call")),
                    Reason::kReplyTooLarge,
                    {{"needed", bytes}, {"available", kMaxStatBytes}});
}

void SetStatus(KeyMetadata& key, KeyStatus& status) {
  const absl::Span<const int64_t> dimensions = key.shape.dimensions();
  status.set_key(std::move(key.name));
  status.set_dtype(static_cast<v1::DType>(key.dtype));
  status.mutable_shape()->Add(dimensions.begin(), dimensions.end());
  status.set_version(key.version);
  status.set_value_bytes(key.value_bytes);
  status.set_state_bytes(key.state_bytes);
  ToProto(key.rule->spec(), status.mutable_rule());
  status.set_update_count(key.update_count);
  ToProto(key.multipliers, status.mutable_multipliers());
  const RuleParameters next =
      key.rule->ParametersAt(key.update_count + 1, key.multipliers, /*seed=*/0);
  status.set_learning_rate(next.learning_rate);
  status.set_weight_decay(next.weight_decay);
  for (std::string& state : StateNames(*key.rule, key.dtype)) {
    status.add_states(std::move(state));
  }
  if (key.digest) status.set_digest(*key.digest);
}

// Adds the statuses of `keys` to those of a reply.
void AddStatuses(std::vector<KeyMetadata> keys,
                 google::protobuf::RepeatedPtrField<KeyStatus>& statuses) {
  statuses.Reserve(static_cast<int>(keys.size()));
  for (KeyMetadata& key : keys) SetStatus(key, *statuses.Add());
}

// Looks now and then whether it is still wanted, as a value may be as large as
// the memory.
absl::StatusOr<uint64_t> DigestOf(const Tensor& tensor,
                                  absl::FunctionRef<absl::Status()> go_on) {
  const auto bytes = static_cast<uint64_t>(tensor.size_bytes());
  if (bytes <= kDigestBytes) return XXH3_64bits(tensor.data(), bytes);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(
      XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (uint64_t begin = 0; begin < bytes; begin += kDigestBytes) {
    RETURN_IF_ERROR(go_on());
    XXH3_64bits_update(state.get(), tensor.data() + begin,
                       std::min(kDigestBytes, bytes - begin));
  }
  return XXH3_64bits_digest(state.get());
}

// Reads the values as any reader does, and reports what it read: version, count
// and digest belong together. Waits for no more than an update under way.
absl::Status AddDigests(NamespaceState& from, absl::Span<KeyMetadata> keys,
                        const CallContext& context,
                        absl::FunctionRef<absl::Status()> go_on) {
  PullRequest pull;
  for (const KeyMetadata& key : keys) pull.entries.push_back({key.name, 0});
  std::vector<uint64_t> update_counts;
  const Answer<absl::StatusOr<PullReply>> answer;
  StartPull(from, std::move(pull), UINT64_MAX, context, &update_counts,
            [answer](absl::StatusOr<PullReply> reply) {
              answer.Set(std::move(reply));
            });
  ASSIGN_OR_RETURN(const PullReply reply, answer.Wait());
  absl::flat_hash_map<absl::string_view, uint64_t> digests;  // by key
  for (size_t i = 0; i < keys.size(); ++i) {
    const Value& value = reply.values[i];
    KeyMetadata& key = keys[i];
    key.dtype = value.tensor.dtype();
    key.shape = value.tensor.shape();
    key.value_bytes = value.tensor.size_bytes();
    key.version = value.version;
    key.update_count = update_counts[i];
    const auto [digest, is_new] = digests.try_emplace(key.name);
    if (is_new) {
      ASSIGN_OR_RETURN(digest->second, DigestOf(value.tensor, go_on));
    }
    key.digest = digest->second;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ListReply> Namespace::List(const ListRequest& request) const {
  const size_t page_size = request.page_size() == 0
                               ? kDefaultPageSize
                               : std::min(request.page_size(), kMaxPageSize);
  if (!request.page_token().empty()) {
    if (absl::Status status = CheckKey(request.page_token()); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("page_token: ", status.message()));
    }
  }
  ListReply reply;
  std::vector<KeyMetadata> page;
  {
    MutexLock lock(&state_->mutex);
    // One more than the page tells whether there is another.
    std::vector<StoredKey*> keys = state_->keys.List(
        request.prefix(), request.page_token(), page_size + 1);
    if (keys.size() > page_size) {
      keys.pop_back();
      reply.set_next_page_token(std::string(keys.back()->name()));
    }
    page.reserve(keys.size());
    uint64_t bytes = 0;
    for (const StoredKey* key : keys) {
      page.push_back(MetadataOf(*key));
      bytes += StatusBytes(page.back());
      if (bytes <= kMaxPageBytes || page.size() == 1) continue;
      page.pop_back();
      reply.set_next_page_token(page.back().name);
      break;
    }
  }
  AddStatuses(std::move(page), *reply.mutable_keys());
  return reply;
}

absl::StatusOr<StatReply> Namespace::Stat(const StatRequest& request,
                                          const CallContext& context) {
  const absl::Duration end = state_->Now() + context.timeout;
  const auto& names = request.keys();
  RETURN_IF_ERROR(state_->CheckNumEntries(names.size()));
  for (const std::string& name : names) RETURN_IF_ERROR(CheckKey(name));
  std::vector<KeyMetadata> keys;
  keys.reserve(names.size());
  uint64_t bytes = 0;
  const bool is_large = static_cast<size_t>(names.size()) > kKeysPerLock;
  for (auto name = names.begin(); name != names.end();) {
    std::unique_lock<FairMutex> large_lock;
    if (is_large) large_lock = std::unique_lock(state_->large_calls_mutex);
    MutexLock lock(&state_->mutex);
    const auto fence = state_->Fence();
    for (size_t i = 0; i < kKeysPerLock && name != names.end(); ++i) {
      if (fence) RETURN_IF_ERROR(fence->CheckRead(state_->name, *name));
      const StoredKey* key = state_->keys.Find(*name);
      if (key == nullptr) return state_->NoSuchKey(*name);
      keys.push_back(MetadataOf(*key));
      bytes += StatusBytes(keys.back());
      RETURN_IF_ERROR(CheckStatBytes(bytes, keys.size()));
      ++name;
    }
  }
  absl::Span<KeyMetadata> rest;
  if (request.compute_digests()) rest = absl::MakeSpan(keys);
  const auto go_on = [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckIsWanted(*state_, context));
    if (state_->Now() < end) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat(
        "namespace ", Quoted(state_->name), ": digests of ",
        keys.size() - rest.size(), " keys were made, and of ", rest.size(),
        " were to follow, the next ", Quoted(rest[0].name)));
  };
  while (!rest.empty()) {
    RETURN_IF_ERROR(go_on());
    const CallContext read = {.caller = context.caller,
                              .timeout = end - state_->Now(),
                              .cancellation = context.cancellation};
    const size_t num_keys = NumReadTogether(rest);
    RETURN_IF_ERROR(AddDigests(*state_, rest.first(num_keys), read, go_on));
    rest.remove_prefix(num_keys);
  }
  StatReply reply;
  AddStatuses(std::move(keys), *reply.mutable_keys());
  return reply;
}

}  // namespace tensorkv

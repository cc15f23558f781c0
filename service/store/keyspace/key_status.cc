#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull_call.h"
#include "service/store/keyspace/state_access.h"
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

// StatusAndRule is a status whose rule is filled in later, by WithRules, which
// copies the rule without the mutex.
using StatusAndRule = std::pair<KeyStatus, SharedRule>;

// Values that are read together for their digests.
constexpr uint64_t kDigestBytes = 64 << 20;

// Returns how many of the first keys' values are read together: one, whatever
// its size, or more.
size_t NumReadTogether(absl::Span<const StatusAndRule> keys) {
  uint64_t bytes = keys[0].first.value_bytes;
  size_t num_keys = 1;
  while (num_keys < keys.size() &&
         bytes + keys[num_keys].first.value_bytes <= kDigestBytes) {
    bytes += keys[num_keys++].first.value_bytes;
  }
  return num_keys;
}

StatusAndRule StatusOf(const NamespaceState& state, const StoredKey& key) {
  KeyStatus status;
  status.key = std::string(key.name());
  status.dtype = key.dtype();
  status.shape = key.shape();
  status.version = key.version;
  status.value_bytes = key.value_bytes();
  status.state_bytes = key.rule_state ? key.rule_state->size_bytes() : 0;
  status.update_count = key.num_applied();
  if (key.multipliers) status.multipliers = *key.multipliers;
  return {std::move(status), key.rule};
}

// Returns what a status will take once it has its rule, about.
uint64_t SizeOf(const StatusAndRule& status) {
  constexpr uint64_t kStatusBytes = 128;
  constexpr uint64_t kHyperparameterBytes = 32;
  const RuleSpec& rule = status.second->spec();
  return kStatusBytes + status.first.key.size() + rule.expression.size() +
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

std::vector<KeyStatus> WithRules(std::vector<StatusAndRule> statuses) {
  std::vector<KeyStatus> complete;
  complete.reserve(statuses.size());
  for (auto& [status, rule] : statuses) {
    status.rule = rule->spec();
    status.states = StateNames(*rule, status.dtype);
    const RuleParameters next = rule->ParametersAt(
        status.update_count + 1, status.multipliers, /*seed=*/0);
    status.learning_rate = next.learning_rate;
    status.weight_decay = next.weight_decay;
    complete.push_back(std::move(status));
  }
  return complete;
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
absl::Status AddDigests(NamespaceState& from, absl::Span<StatusAndRule> keys,
                        const CallContext& context,
                        absl::FunctionRef<absl::Status()> go_on) {
  PullRequest pull;
  for (const auto& [key, rule] : keys) pull.entries.push_back({key.key, 0});
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
    KeyStatus& status = keys[i].first;
    status.dtype = value.tensor.dtype();
    status.shape = value.tensor.shape();
    status.value_bytes = value.tensor.size_bytes();
    status.version = value.version;
    status.update_count = update_counts[i];
    const auto [digest, is_new] = digests.try_emplace(status.key);
    if (is_new) {
      ASSIGN_OR_RETURN(digest->second, DigestOf(value.tensor, go_on));
    }
    status.digest = digest->second;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ListReply> Namespace::List(const ListRequest& request) const {
  const size_t page_size = request.page_size == 0
                               ? kDefaultPageSize
                               : std::min(request.page_size, kMaxPageSize);
  if (!request.page_token.empty()) {
    if (absl::Status status = CheckKey(request.page_token); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("page_token: ", status.message()));
    }
  }
  ListReply reply;
  std::vector<StatusAndRule> statuses;
  {
    MutexLock lock(&state_->mutex);
    // One more than the page tells whether there is another.
    std::vector<StoredKey*> keys =
        state_->keys.List(request.prefix, request.page_token, page_size + 1);
    if (keys.size() > page_size) {
      keys.pop_back();
      reply.next_page_token = std::string(keys.back()->name());
    }
    statuses.reserve(keys.size());
    uint64_t bytes = 0;
    for (const StoredKey* key : keys) {
      statuses.push_back(StatusOf(*state_, *key));
      bytes += SizeOf(statuses.back());
      if (bytes <= kMaxPageBytes || statuses.size() == 1) continue;
      statuses.pop_back();
      reply.next_page_token = statuses.back().first.key;
      break;
    }
  }
  reply.keys = WithRules(std::move(statuses));
  return reply;
}

absl::StatusOr<StatReply> Namespace::Stat(const StatRequest& request,
                                          const CallContext& context) {
  const absl::Duration end = state_->Now() + context.timeout;
  RETURN_IF_ERROR(state_->CheckNumEntries(request.keys.size()));
  for (const std::string& name : request.keys) RETURN_IF_ERROR(CheckKey(name));
  std::vector<StatusAndRule> statuses;
  statuses.reserve(request.keys.size());
  uint64_t bytes = 0;
  const bool is_large = request.keys.size() > kKeysPerLock;
  for (auto name = request.keys.begin(); name != request.keys.end();) {
    std::unique_lock<FairMutex> large_lock;
    if (is_large) large_lock = std::unique_lock(state_->large_calls_mutex);
    MutexLock lock(&state_->mutex);
    const auto fence = state_->Fence();
    for (size_t i = 0; i < kKeysPerLock && name != request.keys.end(); ++i) {
      if (fence) RETURN_IF_ERROR(fence->CheckRead(state_->name, *name));
      const StoredKey* key = state_->keys.Find(*name);
      if (key == nullptr) return state_->NoSuchKey(*name);
      statuses.push_back(StatusOf(*state_, *key));
      bytes += SizeOf(statuses.back());
      RETURN_IF_ERROR(CheckStatBytes(bytes, statuses.size()));
      ++name;
    }
  }
  absl::Span<StatusAndRule> rest;
  if (request.compute_digests) rest = absl::MakeSpan(statuses);
  const auto go_on = [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckIsWanted(*state_, context));
    if (state_->Now() < end) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat(
        "namespace ", Quoted(state_->name), ": digests of ",
        statuses.size() - rest.size(), " keys were made, and of ", rest.size(),
        " were to follow, the next ", Quoted(rest[0].first.key)));
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
  return StatReply{WithRules(std::move(statuses))};
}

}  // namespace tensorkv

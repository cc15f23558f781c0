#include "service/store/keyspace/namespace.h"

#include <xxhash.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/answer.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

constexpr uint32_t kDefaultPageSize = 1000;
constexpr uint32_t kMaxPageSize = 10000;

// What answers to calls may take of the budget, and how much is enough for
// any.
constexpr uint64_t kShareOfCallWindow = 64;
constexpr uint64_t kMinCallWindowBytes = 64 << 10;
constexpr uint64_t kMaxCallWindowBytes = 64 << 20;

// Less holds hardly a key.
constexpr uint64_t kMinBudgetBytes = 4096;

// How many keys one turn of the mutex describes.
constexpr size_t kStatsPerTurn = 1024;

// Values that are read together for their digests.
constexpr uint64_t kDigestBytes = 64 << 20;

// How many of the first keys' values are read together: one, whatever its size,
// or more.
size_t NumReadTogether(absl::Span<const KeyStatus> keys) {
  uint64_t bytes = keys[0].value_bytes;
  size_t num_keys = 1;
  while (num_keys < keys.size() &&
         bytes + keys[num_keys].value_bytes <= kDigestBytes) {
    bytes += keys[num_keys++].value_bytes;
  }
  return num_keys;
}

CallWindowOptions WindowOptions(uint64_t budget_bytes,
                                absl::Duration max_wait) {
  return {.max_bytes = std::clamp(budget_bytes / kShareOfCallWindow,
                                  kMinCallWindowBytes, kMaxCallWindowBytes),
          .max_wait = max_wait};
}

uint64_t RandomUid() {
  std::random_device random;
  const uint64_t high = random();
  return std::max<uint64_t>(high << 32 | random(), 1);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Namespace>> Namespace::Create(
    const std::string& name, NamespaceConfig config,
    const NamespaceEnvironment& environment) {
  RETURN_IF_ERROR(CheckNamespaceName(name));
  ASSIGN_OR_RETURN(UpdateRule rule, UpdateRule::Create(config.rule));
  auto workers =
      std::make_unique<WorkerGroup>(GroupOptionsOf(config, environment));
  ASSIGN_OR_RETURN(std::unique_ptr<PushMode> mode,
                   PushMode::Create(config, workers.get()));
  const uint64_t server_budget = environment.budgets->largest_bytes();
  if (config.budget_bytes > server_budget) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "namespace ", Quoted(name), ": expected a budget of at most ",
            server_budget, " bytes, the server's, got ", config.budget_bytes)),
        Reason::kOverBudget,
        {{"needed", config.budget_bytes}, {"available", server_budget}});
  }
  if (config.budget_bytes == 0) config.budget_bytes = server_budget;
  if (config.budget_bytes < std::min(kMinBudgetBytes, server_budget)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "namespace ", Quoted(name), ": expected a budget of at least ",
        kMinBudgetBytes, " bytes, got ", config.budget_bytes));
  }
  config.rule = rule.spec();
  mode->FillDefaults(config);
  return std::shared_ptr<Namespace>(new Namespace(
      name, std::move(config), std::move(workers), std::move(mode),
      MakeRefCounted<BoundRule>(std::move(rule)), environment));
}

Namespace::Namespace(std::string name, NamespaceConfig config,
                     WorkerGroupPtr workers, std::unique_ptr<PushMode> mode,
                     SharedRule rule, const NamespaceEnvironment& environment)
    : name_(std::move(name)),
      uid_(RandomUid()),
      config_(std::move(config)),
      workers_(std::move(workers)),
      environment_(environment),
      is_on_host_(environment.devices->is_host()),
      memory_(absl::StrCat("namespace ", Quoted(name_)), config_.budget_bytes,
              environment.budgets),
      mode_(std::move(mode)),
      calls_(CallWindow::Create(
          WindowOptions(std::min(config_.budget_bytes,
                                 environment.budgets->host()->limit_bytes()),
                        environment.max_wait),
          environment.alarms, memory_.metadata())),
      bindings_(std::make_shared<const RuleBindings>(std::move(rule))) {}

absl::Status Namespace::NoSuchKey(absl::string_view key) const {
  return WithReason(
      absl::NotFoundError(absl::StrCat(
          "key ", Quoted(key), " does not exist in namespace ", Quoted(name_))),
      Reason::kKeyNotFound, {{"key", key}});
}

absl::Status Namespace::CheckNumEntries(size_t num_entries) const {
  if (num_entries <= environment_.max_entries) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        "entries of a call: expected at most ",
                        environment_.max_entries, ", got ", num_entries)),
                    Reason::kLimitReached,
                    {{"limit", environment_.max_entries}});
}

absl::StatusOr<bool> Namespace::IsRepeat(
    const Caller& caller, const std::optional<CallId>& call_id) const {
  if (!call_id) return false;
  return calls_->Knows(caller, *call_id);
}

std::pair<KeyStatus, SharedRule> Namespace::StatusOf(
    const StoredKey& key) const {
  KeyStatus status;
  status.key = std::string(key.name());
  status.dtype = key.dtype();
  status.shape = key.shape();
  status.version = key.version;
  status.value_bytes = key.value_bytes();
  status.state_bytes = key.rule_state ? key.rule_state->size_bytes() : 0;
  status.update_count = key.update_count;
  if (key.multipliers) status.multipliers = *key.multipliers;
  status.device = std::string(DeviceOf(key).name());
  return {std::move(status), key.rule};
}

std::vector<KeyStatus> Namespace::WithRules(
    std::vector<std::pair<KeyStatus, SharedRule>> statuses) {
  std::vector<KeyStatus> complete;
  complete.reserve(statuses.size());
  for (auto& [status, rule] : statuses) {
    status.rule = rule->spec();
    const RuleParameters next = rule->ParametersAt(
        status.update_count + 1, status.multipliers, /*seed=*/0);
    status.learning_rate = next.learning_rate;
    status.weight_decay = next.weight_decay;
    complete.push_back(std::move(status));
  }
  return complete;
}

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
  std::vector<std::pair<KeyStatus, SharedRule>> statuses;
  {
    MutexLock lock(&mutex_);
    // One more than the page tells whether there is another.
    std::vector<StoredKey*> keys =
        keys_.List(request.prefix, request.page_token, page_size + 1);
    if (keys.size() > page_size) {
      keys.pop_back();
      reply.next_page_token = std::string(keys.back()->name());
    }
    statuses.reserve(keys.size());
    for (const StoredKey* key : keys) statuses.push_back(StatusOf(*key));
  }
  reply.keys = WithRules(std::move(statuses));
  return reply;
}

absl::StatusOr<StatReply> Namespace::Stat(const StatRequest& request) {
  RETURN_IF_ERROR(CheckNumEntries(request.keys.size()));
  for (const std::string& name : request.keys) RETURN_IF_ERROR(CheckKey(name));
  std::vector<std::pair<KeyStatus, SharedRule>> statuses;
  statuses.reserve(request.keys.size());
  for (auto name = request.keys.begin(); name != request.keys.end();) {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < kStatsPerTurn && name != request.keys.end(); ++i) {
      const StoredKey* key = keys_.Find(*name);
      if (key == nullptr) return NoSuchKey(*name);
      statuses.push_back(StatusOf(*key));
      ++name;
    }
  }
  StatReply reply = {WithRules(std::move(statuses))};
  if (!request.with_digest) return reply;
  absl::Span<KeyStatus> rest = absl::MakeSpan(reply.keys);
  while (!rest.empty()) {
    RETURN_IF_ERROR(CheckIsWanted(CallContext()));
    const size_t num_keys = NumReadTogether(rest);
    RETURN_IF_ERROR(AddDigests(rest.first(num_keys)));
    rest.remove_prefix(num_keys);
  }
  return reply;
}

// Reads the values as any reader does, and reports what it read: version and
// digest belong together. Waits for no more than an update under way.
absl::Status Namespace::AddDigests(absl::Span<KeyStatus> keys) {
  PullRequest pull;
  for (const KeyStatus& key : keys) pull.entries.push_back({key.key, 0});
  const Answer<absl::StatusOr<PullReply>> answer;
  Pull(std::move(pull), CallContext(),
       [answer](absl::StatusOr<PullReply> reply) {
         answer.Set(std::move(reply));
       });
  ASSIGN_OR_RETURN(const PullReply reply, answer.Wait());
  absl::flat_hash_map<absl::string_view, uint64_t> digests;  // by key
  for (size_t i = 0; i < keys.size(); ++i) {
    const Value& value = reply.values[i];
    KeyStatus& status = keys[i];
    status.dtype = value.tensor.dtype();
    status.shape = value.tensor.shape();
    status.value_bytes = value.tensor.size_bytes();
    status.version = value.version;
    const auto [digest, is_new] = digests.try_emplace(status.key);
    if (is_new) {
      digest->second =
          XXH3_64bits(value.tensor.data(), value.tensor.size_bytes());
    }
    status.digest = digest->second;
  }
  return absl::OkStatus();
}

NamespaceStatus Namespace::Numbers(const WaitStatus& attempts) const {
  NamespaceStatus status;
  status.name = name_;
  status.uid = uid_;
  status.memory = memory_.used();
  status.device_memory = memory_.used_on_gpus();
  status.revision = revision_;
  status.num_keys = keys_.size();
  status.updates_applied = updates_applied_;
  status.rounds_open = rounds_open_;
  status.rounds_closed = rounds_closed_;
  status.rounds_failed = rounds_failed_;
  status.calls_waiting = waits_.num_parked() + attempts.calls_waiting;
  status.waits.assign(waits_.statuses().begin(), waits_.statuses().end());
  status.waits[static_cast<size_t>(attempts.reason)] = attempts;
  status.live_workers = workers_->num_live();
  status.lease_expirations = workers_->num_expirations();
  status.contributions_late = contributions_late_;
  status.contributions_duplicate = contributions_duplicate_;
  status.contributions_fenced = contributions_fenced_;
  status.slowest_lag = workers_->max_step() - workers_->slowest_step();
  return status;
}

NamespaceStatus Namespace::Describe() const {
  const WaitStatus attempts = calls_->waits();
  const std::shared_ptr<const RuleBindings> bound = bindings();
  std::vector<RuleBinding> rules = bound->List();
  std::vector<MultipliersBinding> multipliers = bound->multipliers.List();
  MutexLock lock(&mutex_);
  NamespaceStatus status = Numbers(attempts);
  status.multipliers = std::move(multipliers);
  status.config = config_;
  status.rules = std::move(rules);
  status.config.rule = status.rules.back().rule;
  status.workers = workers_->List(environment_.alarms->Now());
  return status;
}

NamespaceStatus Namespace::Summarize() const {
  const WaitStatus attempts = calls_->waits();
  MutexLock lock(&mutex_);
  NamespaceStatus status = Numbers(attempts);
  status.config.budget_bytes = config_.budget_bytes;
  return status;
}

}  // namespace tensorkv

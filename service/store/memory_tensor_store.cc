#include "service/store/memory_tensor_store.h"

#include <iterator>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/task_pool.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "service/store/device_work.h"
#include "service/store/keyspace/config_fields.h"
#include "service/store/keyspace/pull/delta_queue.h"
#include "service/store/names.h"
#include "service/store/once_calls.h"

namespace tensorkv {
namespace {

// Says how much of the budget deltas may take.
constexpr uint64_t kShareOfDeltas = 8;

absl::Status ShuttingDown() {
  return WithReason(absl::UnavailableError("the server is shutting down"),
                    Reason::kServerStopping);
}

// A caller that expects another incarnation hears that it is another, not that
// this one lacks the namespace.
template <typename Found>
absl::StatusOr<Found> OrRemembered(absl::StatusOr<Found> found,
                                   const Caller& caller) {
  if (!found.ok()) RETURN_IF_ERROR(caller.unless_remembered);
  return found;
}

}  // namespace

absl::Status MemoryTensorStore::ExistsAlready(absl::string_view name_space) {
  return WithReason(absl::AlreadyExistsError(absl::StrCat(
                        "namespace ", Quoted(name_space), " exists already")),
                    Reason::kNamespaceExists, {{"namespace", name_space}});
}

MemoryTensorStore::MemoryTensorStore(const MemoryTensorStoreOptions& options,
                                     Backend* device, Alarms* alarms)
    : budgets_(options.budget_bytes, options.device_budget_bytes, *device,
               options.max_retained_bytes,
               options.max_delta_bytes.value_or(options.budget_bytes /
                                                kShareOfDeltas)),
      pool_(options.pool ? options.pool : std::make_shared<TaskPool>()),
      deltas_(std::make_shared<DeltaQueue>(&budgets_, pool_, alarms)),
      environment_{.device = device,
                   .work_under_way = std::make_shared<WorkUnderWay>(),
                   .alarms = alarms,
                   .pool = pool_,
                   .deltas = deltas_,
                   .budgets = &budgets_,
                   .last_epoch = &last_epoch_,
                   .fence = &fence_,
                   .observer = options.observer,
                   .exchange = options.exchange,
                   .max_wait = options.max_wait,
                   .min_lease = options.min_lease,
                   .max_lease = options.max_lease,
                   .max_entries = options.max_entries},
      max_namespaces_(options.max_namespaces),
      calls_(
          CallWindow::Create({.max_wait = options.max_wait}, alarms,
                             MakeRefCounted<BudgetAccount>(budgets_.host()))) {
  NamespacePtr created = MakeDefault(options.default_uid);
  own_default_uid_ = created->uid();
  namespaces_.emplace(kDefaultNamespace, std::move(created));
}

uint64_t MemoryTensorStore::num_deltas_encoded() const {
  return deltas_->cache().num_encoded();
}

MemoryTensorStore::NamespacePtr MemoryTensorStore::MakeDefault(
    uint64_t uid) const {
  // The default configuration has nothing to fail on.
  return *Namespace::Create(std::string(kDefaultNamespace), NamespaceConfig(),
                            environment_, uid);
}

// The pool stops when no update is on a device any more: the next of a key may
// have to wait for one, which a thread of that device cannot.
void MemoryTensorStore::Stop() {
  CancelWaits();
  environment_.work_under_way->WaitForAll();
  environment_.pool->Stop();
  environment_.work_under_way->WaitForAll();
}

absl::StatusOr<MemoryTensorStore::NamespacePtr> MemoryTensorStore::Find(
    absl::string_view name_space, uint64_t uid) const {
  if (name_space.empty()) name_space = kDefaultNamespace;
  MutexLock lock(&mutex_);
  const auto it = namespaces_.find(name_space);
  if (it == namespaces_.end()) {
    return WithReason(absl::NotFoundError(absl::StrCat(
                          "namespace ", Quoted(name_space), " does not exist")),
                      Reason::kNamespaceNotFound, {{"namespace", name_space}});
  }
  if (uid != 0 && it->second->uid() != uid) {
    return WasReplaced(name_space, uid, it->second->uid());
  }
  return it->second;
}

template <typename Request>
absl::StatusOr<MemoryTensorStore::NamespacePtr> MemoryTensorStore::FindFor(
    const Caller& caller, const Request& request) const {
  return OrRemembered(Find(NamespaceIn(request), NamespaceUidIn(request)),
                      caller);
}

std::vector<MemoryTensorStore::NamespacePtr> MemoryTensorStore::All() const {
  std::vector<NamespacePtr> all;
  MutexLock lock(&mutex_);
  for (const auto& [name, name_space] : namespaces_) all.push_back(name_space);
  return all;
}

std::vector<std::string> MemoryTensorStore::Names() const {
  std::vector<std::string> names;
  MutexLock lock(&mutex_);
  for (const auto& [name, name_space] : namespaces_) names.push_back(name);
  return names;
}

void MemoryTensorStore::Report(StoreEvent event, absl::string_view name_space,
                               absl::string_view detail) const {
  if (environment_.observer == nullptr) return;
  if (name_space.empty()) name_space = kDefaultNamespace;
  environment_.observer->Report(event, name_space, detail);
}

CallContext MemoryTensorStore::WithinMaxWait(CallContext context) const {
  context.timeout = std::min(context.timeout, environment_.max_wait);
  return context;
}

template <typename Request, typename Verb>
void MemoryTensorStore::MakeInNamespace(Request request, CallContext context,
                                        ReplyCallback<ReplyTo<Request>> done,
                                        Verb verb) {
  const absl::StatusOr<NamespacePtr> found = FindFor(context.caller, request);
  if (!found.ok()) return std::move(done)(found.status());
  MakeOnce(
      (*found)->calls(), (*found)->alarms(), std::move(request),
      WithinMaxWait(std::move(context)), std::move(done),
      [in = *found, verb](auto... call) { verb(*in, std::move(call)...); });
}

void MemoryTensorStore::PushPull(PushPullRequest request, CallContext context,
                                 ReplyCallback<PullReply> done) {
  const absl::StatusOr<NamespacePtr> found = FindFor(context.caller, request);
  if (!found.ok()) return std::move(done)(found.status());
  PushPullOnce(*found, std::move(request), WithinMaxWait(std::move(context)),
               std::move(done));
}

void MemoryTensorStore::Push(PushRequest request, CallContext context,
                             ReplyCallback<PushReply> done) {
  if (request.with_tokens) {
    const absl::StatusOr<NamespacePtr> found = FindFor(context.caller, request);
    if (!found.ok()) return std::move(done)(found.status());
    done = (*found)->WithTokens(request, std::move(done));
  }
  MakeInNamespace(
      std::move(request), std::move(context), std::move(done),
      [](Namespace& in, auto... call) { in.Push(std::move(call)...); });
}

#define TENSORKV_VERB(name, ...)                                           \
  void MemoryTensorStore::name(name##Request request, CallContext context, \
                               ReplyCallback<name##Reply> done) {          \
    MakeInNamespace(                                                       \
        std::move(request), std::move(context), std::move(done),           \
        [](Namespace& in, auto... call) { in.name(std::move(call)...); }); \
  }
TENSORKV_VERB(Init)
TENSORKV_VERB(SetState)
TENSORKV_VERB(Delete)
TENSORKV_VERB(Barrier)
TENSORKV_NAMESPACE_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB

absl::StatusOr<ListReply> MemoryTensorStore::List(const ListRequest& request,
                                                  const CallContext& context) {
  ASSIGN_OR_RETURN(const NamespacePtr found, FindFor(context.caller, request));
  return found->List(request);
}

#define TENSORKV_READ(name)                                                  \
  void MemoryTensorStore::name(name##Request request, CallContext context,   \
                               ReplyCallback<name##Reply> done) {            \
    const absl::StatusOr<NamespacePtr> found =                               \
        FindFor(context.caller, request);                                    \
    if (!found.ok()) return std::move(done)(found.status());                 \
    (*found)->name(std::move(request), std::move(context), std::move(done)); \
  }
TENSORKV_READ(Pull)
TENSORKV_READ(GetState)
TENSORKV_READ(Stat)
#undef TENSORKV_READ

#define TENSORKV_CHECK(name)                                                \
  absl::Status MemoryTensorStore::Check##name(const name##Request& request, \
                                              const CallContext& context) { \
    ASSIGN_OR_RETURN(const NamespacePtr found,                              \
                     FindFor(context.caller, request));                     \
    return found->Check##name(request, context.caller);                     \
  }
TENSORKV_CHECK(Init)
TENSORKV_CHECK(Push)
TENSORKV_CHECK(SetState)
#undef TENSORKV_CHECK

absl::Status MemoryTensorStore::Allocate(absl::string_view name_space,
                                         absl::Span<Tensor* const> tensors,
                                         const CallContext& context) {
  ASSIGN_OR_RETURN(const NamespacePtr found,
                   OrRemembered(Find(name_space), context.caller));
  return found->Allocate(tensors);
}

bool MemoryTensorStore::ReadsInPlace(absl::string_view name_space) {
  const absl::StatusOr<NamespacePtr> found = Find(name_space);
  return found.ok() && (*found)->ReadsInPlace();
}

void MemoryTensorStore::CreateNamespace(
    CreateNamespaceRequest request, CallContext context,
    ReplyCallback<CreateNamespaceReply> done) {
  absl::StatusOr<NamespaceConfig> config = KnownConfig(request.config());
  if (!config.ok()) return std::move(done)(config.status());
  const absl::StatusOr<OnExisting> on_existing =
      DecodeOnExisting(request.on_existing());
  if (!on_existing.ok()) return std::move(done)(on_existing.status());
  MakeOnce(*calls_, *environment_.alarms, std::move(request),
           std::move(context), std::move(done),
           [this, config = *std::move(config), on_existing = *on_existing](
               const CreateNamespaceRequest& call, const CallContext&,
               ReplyCallback<CreateNamespaceReply> end) {
             std::move(end)(MakeNamespace(
                 call.namespace_(), call.namespace_uid(), config, on_existing));
           });
}

absl::StatusOr<CreateNamespaceReply> MemoryTensorStore::MakeNamespace(
    const std::string& name, uint64_t uid, const NamespaceConfig& config,
    OnExisting on_existing) {
  if (on_existing == OnExisting::kReplace) {
    return absl::InvalidArgumentError(
        "on_existing of a namespace: expected FAIL or KEEP, got REPLACE");
  }
  ASSIGN_OR_RETURN(NamespacePtr created,
                   Namespace::Create(name, config, environment_, uid));
  NamespacePtr present;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(present, Insert(name, uid, on_existing, created));
  }
  if (present == created) Report(StoreEvent::kNamespaceCreated, name, "");
  CreateNamespaceReply reply;
  reply.set_uid(present->uid());
  return reply;
}

absl::StatusOr<MemoryTensorStore::NamespacePtr> MemoryTensorStore::Insert(
    const std::string& name, uint64_t uid, OnExisting on_existing,
    const NamespacePtr& created) {
  const auto existing = namespaces_.find(name);
  if (existing != namespaces_.end()) {
    if (on_existing == OnExisting::kFail) return ExistsAlready(name);
    const uint64_t present = existing->second->uid();
    if (uid != 0 && uid != present) return WasReplaced(name, uid, present);
    RETURN_IF_ERROR(CheckSameConfig(
        absl::StrCat("namespace ", Quoted(name),
                     " exists already, with another configuration"),
        name, existing->second->config(), created->config(),
        ConfigFields::kAll));
    return existing->second;
  }
  RETURN_IF_ERROR(CheckNumNamespaces(namespaces_.size() + 1));
  namespaces_.emplace(name, created);
  return created;
}

absl::StatusOr<DescribeNamespaceReply> MemoryTensorStore::DescribeNamespace(
    const DescribeNamespaceRequest& request, const CallContext& context) {
  ASSIGN_OR_RETURN(const NamespacePtr found, FindFor(context.caller, request));
  DescribeNamespaceReply reply;
  *reply.mutable_status() = found->Describe();
  return reply;
}

absl::StatusOr<std::vector<NamespaceStatus>> MemoryTensorStore::ListNamespaces(
    absl::string_view after, size_t max_namespaces, Shows shows,
    const CallContext&) {
  std::vector<NamespaceStatus> statuses;
  std::string last(after);
  while (statuses.size() < max_namespaces) {
    const auto some = NamespacesAfter(last);
    if (some.empty()) break;
    for (const auto& [name, each] : some) {
      if (statuses.size() == max_namespaces) break;
      if (!shows(name)) continue;
      statuses.push_back(each->Describe());
      statuses.back().clear_workers();
      statuses.back().clear_guard_counts();
    }
    last = some.back().first;
  }
  return statuses;
}

std::vector<std::pair<std::string, MemoryTensorStore::NamespacePtr>>
MemoryTensorStore::NamespacesAfter(absl::string_view name) const {
  constexpr size_t kAtMost = 100;
  std::vector<std::pair<std::string, NamespacePtr>> some;
  some.reserve(kAtMost);
  MutexLock lock(&mutex_);
  for (auto it = namespaces_.upper_bound(name);
       it != namespaces_.end() && some.size() < kAtMost; ++it) {
    some.emplace_back(*it);
  }
  return some;
}

std::vector<NamespaceSummary> MemoryTensorStore::Summaries() const {
  std::vector<NamespaceSummary> summaries;
  for (const NamespacePtr& each : All()) summaries.push_back(each->Summarize());
  return summaries;
}

absl::StatusOr<std::vector<OpenRound>> MemoryTensorStore::OpenRounds(
    absl::string_view name_space) const {
  ASSIGN_OR_RETURN(const NamespacePtr found, Find(name_space));
  return found->OpenRounds();
}

void MemoryTensorStore::DeleteNamespace(
    DeleteNamespaceRequest request, CallContext context,
    ReplyCallback<DeleteNamespaceReply> done) {
  MakeOnce(*calls_, *environment_.alarms, std::move(request),
           std::move(context), std::move(done),
           [this](const DeleteNamespaceRequest& call, const CallContext&,
                  ReplyCallback<DeleteNamespaceReply> end) {
             absl::Status status = Remove(call);
             if (!status.ok()) return std::move(end)(std::move(status));
             std::move(end)(DeleteNamespaceReply());
           });
}

absl::Status MemoryTensorStore::Remove(const DeleteNamespaceRequest& request) {
  const std::string& name_space = request.namespace_();
  if (name_space.empty() || name_space == kDefaultNamespace) {
    return absl::FailedPreconditionError(
        "namespace \"default\" cannot be deleted");
  }
  RETURN_IF_ERROR(CheckNamespaceName(name_space));
  const absl::StatusOr<NamespacePtr> sought =
      Find(name_space, request.namespace_uid());
  // One that is not here may be about to come from another server.
  if (sought.ok() || absl::IsNotFound(sought.status())) {
    MutexLock lock(&mutex_);
    deleted_.Add(name_space, environment_.alarms->Now());
  }
  ASSIGN_OR_RETURN(const NamespacePtr found, sought);
  {
    MutexLock lock(&mutex_);
    const auto it = namespaces_.find(name_space);
    if (it != namespaces_.end() && it->second == found) namespaces_.erase(it);
  }
  found->End(WithReason(absl::NotFoundError(absl::StrCat(
                            "namespace ", Quoted(name_space), " was deleted")),
                        Reason::kNamespaceNotFound,
                        {{"namespace", name_space}}));
  Report(StoreEvent::kNamespaceDeleted, name_space, "");
  return absl::OkStatus();
}

absl::Status MemoryTensorStore::CheckNumNamespaces(size_t size) const {
  if (size <= max_namespaces_) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        "namespaces of this server: expected at most ",
                        max_namespaces_, ", got ", size)),
                    Reason::kLimitReached, {{"limit", max_namespaces_}});
}

void MemoryTensorStore::CancelWaits() { EndWaits(ShuttingDown()); }

void MemoryTensorStore::EndWaits(const absl::Status& status) {
  calls_->EndWaits(status);
  for (const NamespacePtr& each : All()) each->EndWaits(status);
}

void MemoryTensorStore::InterruptWaits(const absl::Status& status) {
  for (const NamespacePtr& each : All()) each->InterruptWaits(status);
}

}  // namespace tensorkv

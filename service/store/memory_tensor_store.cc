#include "service/store/memory_tensor_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"
#include "service/store/once_calls.h"

namespace tensorkv {
namespace {

absl::Status ShuttingDown() {
  return absl::UnavailableError("the server is shutting down");
}

absl::Status WasReplaced(absl::string_view name_space, uint64_t expected,
                         uint64_t actual) {
  const std::string present = absl::StrCat(absl::Hex(actual, absl::kZeroPad16));
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        "namespace ", Quoted(name_space), ": expected uid ",
                        absl::Hex(expected, absl::kZeroPad16), ", got ",
                        present, ": it was deleted and created again")),
                    Reason::kNamespaceReplaced,
                    {{"namespace", name_space}, {"uid", present}});
}

}  // namespace

MemoryTensorStore::MemoryTensorStore(const MemoryTensorStoreOptions& options,
                                     std::vector<Backend*> devices,
                                     Alarms* alarms)
    : devices_(std::move(devices)),
      budgets_(options.budget_bytes, options.device_budget_bytes, devices_),
      next_epoch_(options.first_epoch),
      environment_{.devices = &devices_,
                   .alarms = alarms,
                   .executor = &executor_,
                   .budgets = &budgets_,
                   .next_epoch = &next_epoch_,
                   .max_wait = options.max_wait,
                   .min_lease = options.min_lease,
                   .max_lease = options.max_lease,
                   .max_entries = options.max_entries},
      max_namespaces_(options.max_namespaces),
      calls_(
          CallWindow::Create({.max_wait = options.max_wait}, alarms,
                             MakeRefCounted<BudgetAccount>(budgets_.host()))) {
  // A namespace with the default configuration has nothing to fail on.
  namespaces_.emplace(kDefaultNamespace,
                      *Namespace::Create(std::string(kDefaultNamespace),
                                         NamespaceConfig(), environment_));
}

MemoryTensorStore::~MemoryTensorStore() { CancelWaits(); }

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

std::vector<MemoryTensorStore::NamespacePtr> MemoryTensorStore::All() const {
  std::vector<NamespacePtr> all;
  MutexLock lock(&mutex_);
  for (const auto& [name, name_space] : namespaces_) all.push_back(name_space);
  return all;
}

CallContext MemoryTensorStore::Bounded(CallContext context) const {
  context.timeout = std::min(context.timeout, environment_.max_wait);
  return context;
}

void MemoryTensorStore::Init(InitRequest request, CallContext context,
                             ReplyCallback<InitReply> done) {
  const absl::StatusOr<NamespacePtr> found =
      Find(request.name_space, request.namespace_uid);
  if (!found.ok()) return std::move(done)(found.status());
  InitOnce(*found, std::move(request), Bounded(std::move(context)),
           std::move(done));
}

void MemoryTensorStore::Push(PushRequest request, CallContext context,
                             ReplyCallback<PushReply> done) {
  const absl::StatusOr<NamespacePtr> found =
      Find(request.name_space, request.namespace_uid);
  if (!found.ok()) return std::move(done)(found.status());
  PushOnce(*found, std::move(request), Bounded(std::move(context)),
           std::move(done));
}

void MemoryTensorStore::Pull(PullRequest request, CallContext context,
                             ReplyCallback<PullReply> done) {
  const absl::StatusOr<NamespacePtr> found =
      Find(request.name_space, request.namespace_uid);
  if (!found.ok()) return std::move(done)(found.status());
  (*found)->Pull(std::move(request), Bounded(std::move(context)),
                 std::move(done));
}

void MemoryTensorStore::PushPull(PushRequest request, CallContext context,
                                 ReplyCallback<PullReply> done) {
  const absl::StatusOr<NamespacePtr> found =
      Find(request.name_space, request.namespace_uid);
  if (!found.ok()) return std::move(done)(found.status());
  PushPullOnce(*found, std::move(request), Bounded(std::move(context)),
               std::move(done));
}

absl::StatusOr<DeleteReply> MemoryTensorStore::Delete(DeleteRequest request) {
  ASSIGN_OR_RETURN(const NamespacePtr found,
                   Find(request.name_space, request.namespace_uid));
  return DeleteOnce(*found, request);
}

absl::StatusOr<ListReply> MemoryTensorStore::List(const ListRequest& request) {
  ASSIGN_OR_RETURN(const NamespacePtr found, Find(request.name_space));
  return found->List(request);
}

absl::StatusOr<StatReply> MemoryTensorStore::Stat(const StatRequest& request) {
  ASSIGN_OR_RETURN(const NamespacePtr found, Find(request.name_space));
  return found->Stat(request);
}

absl::Status MemoryTensorStore::CheckInit(const InitRequest& request) {
  ASSIGN_OR_RETURN(const NamespacePtr found,
                   Find(request.name_space, request.namespace_uid));
  return found->CheckInit(request);
}

absl::Status MemoryTensorStore::CheckPush(const PushRequest& request) {
  ASSIGN_OR_RETURN(const NamespacePtr found,
                   Find(request.name_space, request.namespace_uid));
  return found->CheckPush(request);
}

absl::Status MemoryTensorStore::Allocate(absl::string_view name_space,
                                         absl::Span<Tensor* const> tensors) {
  ASSIGN_OR_RETURN(const NamespacePtr found, Find(name_space));
  return found->Allocate(tensors);
}

absl::StatusOr<CreateNamespaceReply> MemoryTensorStore::CreateNamespace(
    const CreateNamespaceRequest& request) {
  return CreateNamespaceOnce(*calls_, request,
                             [&] { return MakeNamespace(request); });
}

absl::StatusOr<CreateNamespaceReply> MemoryTensorStore::MakeNamespace(
    const CreateNamespaceRequest& request) {
  if (request.on_existing == OnExisting::kReplace) {
    return absl::InvalidArgumentError(
        "on_existing of a namespace: expected FAIL or KEEP, got REPLACE");
  }
  ASSIGN_OR_RETURN(
      NamespacePtr created,
      Namespace::Create(request.name_space, request.config, environment_));
  MutexLock lock(&mutex_);
  const auto existing = namespaces_.find(request.name_space);
  if (existing != namespaces_.end()) {
    const std::string subject =
        absl::StrCat("namespace ", Quoted(request.name_space));
    if (request.on_existing == OnExisting::kFail) {
      return absl::AlreadyExistsError(absl::StrCat(subject, " exists already"));
    }
    if (existing->second->config() == created->config()) {
      return CreateNamespaceReply{existing->second->uid()};
    }
    return absl::FailedPreconditionError(
        absl::StrCat(subject, " exists already, with another configuration"));
  }
  if (namespaces_.size() >= max_namespaces_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("namespaces of this server: expected at most ",
                     max_namespaces_, ", got one more"));
  }
  const CreateNamespaceReply reply = {created->uid()};
  namespaces_.emplace(request.name_space, std::move(created));
  return reply;
}

absl::StatusOr<NamespaceStatus> MemoryTensorStore::DescribeNamespace(
    absl::string_view name_space) {
  ASSIGN_OR_RETURN(const NamespacePtr found, Find(name_space));
  return found->Describe();
}

absl::StatusOr<std::vector<NamespaceStatus>>
MemoryTensorStore::ListNamespaces() {
  std::vector<NamespaceStatus> statuses;
  for (const NamespacePtr& each : All()) {
    statuses.push_back(each->Describe());
    statuses.back().workers.clear();
  }
  return statuses;
}

absl::Status MemoryTensorStore::DeleteNamespace(absl::string_view name_space) {
  if (name_space.empty() || name_space == kDefaultNamespace) {
    return absl::FailedPreconditionError(
        "namespace \"default\" cannot be deleted");
  }
  ASSIGN_OR_RETURN(const NamespacePtr found, Find(name_space));
  {
    MutexLock lock(&mutex_);
    const auto it = namespaces_.find(name_space);
    if (it != namespaces_.end() && it->second == found) namespaces_.erase(it);
  }
  found->EndWaits(absl::NotFoundError(
      absl::StrCat("namespace ", Quoted(name_space), " was deleted")));
  return absl::OkStatus();
}

absl::Status MemoryTensorStore::SetRule(const SetRuleRequest& request) {
  ASSIGN_OR_RETURN(const NamespacePtr found, Find(request.name_space));
  return SetRuleOnce(*found, request);
}

absl::Status MemoryTensorStore::UnsetRule(const UnsetRuleRequest& request) {
  ASSIGN_OR_RETURN(const NamespacePtr found, Find(request.name_space));
  return UnsetRuleOnce(*found, request);
}

absl::StatusOr<RuleSpec> MemoryTensorStore::SetHyperparameters(
    const SetHyperparametersRequest& request) {
  ASSIGN_OR_RETURN(const NamespacePtr found, Find(request.name_space));
  return SetHyperparametersOnce(*found, request);
}

absl::StatusOr<JoinReply> MemoryTensorStore::Join(const JoinRequest& request) {
  ASSIGN_OR_RETURN(const NamespacePtr found,
                   Find(request.name_space, request.namespace_uid));
  return JoinOnce(*found, request);
}

absl::StatusOr<KeepAliveReply> MemoryTensorStore::KeepAlive(
    const KeepAliveRequest& request) {
  ASSIGN_OR_RETURN(const NamespacePtr found, Find(request.name_space));
  return found->KeepAlive(request);
}

absl::Status MemoryTensorStore::Leave(const LeaveRequest& request) {
  ASSIGN_OR_RETURN(const NamespacePtr found, Find(request.name_space));
  return LeaveOnce(*found, request);
}

void MemoryTensorStore::Barrier(BarrierRequest request, CallContext context,
                                ReplyCallback<BarrierReply> done) {
  const absl::StatusOr<NamespacePtr> found =
      Find(request.name_space, request.namespace_uid);
  if (!found.ok()) return std::move(done)(found.status());
  BarrierOnce(*found, std::move(request), Bounded(std::move(context)),
              std::move(done));
}

void MemoryTensorStore::CancelWaits() { EndWaits(ShuttingDown()); }

void MemoryTensorStore::EndWaits(const absl::Status& status) {
  calls_->EndWaits(status);
  for (const NamespacePtr& each : All()) each->EndWaits(status);
}

}  // namespace tensorkv

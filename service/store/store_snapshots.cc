// Saves the namespaces of a store, and restores them: all or none.

#include <iterator>
#include <utility>

#include "base/status_macros.h"
#include "service/store/memory_tensor_store.h"
#include "service/store/names.h"

namespace tensorkv {

absl::Status MemoryTensorStore::TakeSnapshot(
    const std::vector<std::string>& namespaces, SnapshotSink& sink) {
  for (const std::string& name : namespaces) {
    RETURN_IF_ERROR(Find(name).status());
  }
  // Namespaces before may take long to write: each is looked up when it is due,
  // so that none is saved that was deleted or replaced meanwhile.
  for (const std::string& name : namespaces.empty() ? Names() : namespaces) {
    const absl::StatusOr<NamespacePtr> found = Find(name);
    if (found.ok()) {
      RETURN_IF_ERROR((*found)->TakeSnapshot(sink));
    } else if (!namespaces.empty()) {
      return found.status();
    }
  }
  return absl::OkStatus();
}

class MemoryTensorStore::StoreRestoration final : public Restoration {
 public:
  StoreRestoration(MemoryTensorStore& store, OnExisting on_existing)
      : store_(store), on_existing_(on_existing) {}

  absl::Status Begin(const NamespaceSnapshot& name_space) override {
    {
      MutexLock lock(&store_.mutex_);
      RETURN_IF_ERROR(store_.CheckRestorable(name_space.name, on_existing_));
    }
    ASSIGN_OR_RETURN(last_,
                     Namespace::Restore(name_space, store_.environment_));
    restored_[name_space.name] = last_;
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> Allocate(DType dtype, Shape shape) override {
    return last_->AllocateToRestore(dtype, shape);
  }

  absl::Status Add(std::vector<KeySnapshot> keys) override {
    return last_->RestoreKeys(std::move(keys));
  }

  absl::Status Commit() override {
    RETURN_IF_ERROR(store_.Exchange(restored_, on_existing_));
    for (const auto& [name, replaced] : restored_) {
      const uint64_t uid = store_.Find(name).value_or(replaced)->uid();
      replaced->End(WasReplaced(name, replaced->uid(), uid));
    }
    return absl::OkStatus();
  }

 private:
  MemoryTensorStore& store_;
  const OnExisting on_existing_;
  Namespaces restored_;
  NamespacePtr last_;
};

std::unique_ptr<Restoration> MemoryTensorStore::StartRestoration(
    OnExisting on_existing) {
  return std::make_unique<StoreRestoration>(*this, on_existing);
}

absl::Status MemoryTensorStore::CheckRestorable(absl::string_view name_space,
                                                OnExisting on_existing) const {
  if (on_existing == OnExisting::kReplace) return absl::OkStatus();
  const auto existing = namespaces_.find(name_space);
  if (existing == namespaces_.end() ||
      (name_space == kDefaultNamespace &&
       existing->second->Summarize().num_keys == 0)) {
    return absl::OkStatus();
  }
  return ExistsAlready(name_space);
}

absl::Status MemoryTensorStore::Exchange(Namespaces& restored,
                                         OnExisting on_existing) {
  MutexLock lock(&mutex_);
  size_t size = namespaces_.size();
  for (const auto& [name, name_space] : restored) {
    RETURN_IF_ERROR(CheckRestorable(name, on_existing));
    size += namespaces_.count(name) == 0 ? 1 : 0;
  }
  RETURN_IF_ERROR(CheckNumNamespaces(size));
  // Namespaces that they replace may have been restored since these began.
  for (const auto& [name, name_space] : restored) {
    name_space->PassOverVersions();
    name_space->EndLiftOfBudget();
  }
  for (auto it = restored.begin(); it != restored.end();) {
    NamespacePtr& present = namespaces_[it->first];
    std::swap(present, it->second);
    it = it->second == nullptr ? restored.erase(it) : std::next(it);
  }
  return absl::OkStatus();
}

// --- Shares of a cluster's --------------------------------------------------

// Goes to the namespace that a question is about.
class MemoryTensorStore::StoreShares final : public SnapshotShares {
 public:
  explicit StoreShares(const MemoryTensorStore& store) : store_(store) {}

  std::vector<v1::CheckSharesRequest> SharesToCheck() const override {
    return OfAll(&Namespace::SharesToCheck);
  }
  v1::CheckSharesResponse CheckShares(
      const v1::CheckSharesRequest& request) const override {
    const absl::StatusOr<NamespacePtr> found = Find(request);
    if (found.ok()) return (*found)->CheckShares(request);
    v1::CheckSharesResponse response;
    *response.mutable_unknown() = request.uids();
    return response;
  }
  void DropShares(const v1::CheckSharesRequest& request,
                  const v1::CheckSharesResponse& response) override {
    const absl::StatusOr<NamespacePtr> found = Find(request);
    if (found.ok()) (*found)->DropShares(response);
  }

  std::vector<v1::FindSharesRequest> SharesToFind() const override {
    return OfAll(&Namespace::SharesToFind);
  }
  v1::FindSharesResponse FindShares(
      const v1::FindSharesRequest& request) const override {
    const absl::StatusOr<NamespacePtr> found = Find(request);
    if (found.ok()) return (*found)->FindShares(request);
    v1::FindSharesResponse response;
    *response.mutable_missing() = request.uids();
    return response;
  }
  void CloseLost(const v1::FindSharesRequest& request,
                 const v1::FindSharesResponse& response) override {
    const absl::StatusOr<NamespacePtr> found = Find(request);
    if (found.ok()) (*found)->CloseLost(response);
  }

 private:
  template <typename Request>
  absl::StatusOr<NamespacePtr> Find(const Request& request) const {
    return store_.Find(request.namespace_(), request.namespace_uid());
  }
  template <typename Request>
  std::vector<Request> OfAll(std::vector<Request> (Namespace::*list)()
                                 const) const {
    std::vector<Request> requests;
    for (const NamespacePtr& name_space : store_.All()) {
      std::vector<Request> more = ((*name_space).*list)();
      std::move(more.begin(), more.end(), std::back_inserter(requests));
    }
    return requests;
  }

  const MemoryTensorStore& store_;
};

std::unique_ptr<SnapshotShares> MemoryTensorStore::OpenShares() const {
  return std::make_unique<StoreShares>(*this);
}

}  // namespace tensorkv

#include "service/store/keyspace/tensor_placement.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace tensorkv {
namespace {

class HostPlacement final : public TensorPlacement {
 public:
  HostPlacement(Backend* host, const NamespaceMemory* memory)
      : host_(*host), memory_(*memory) {}

  bool copies() const override { return false; }

  bool CanKeep(const Tensor& tensor) const override {
    const uint64_t bytes = tensor.size_bytes();
    return tensor.has_data() ? CanBecomeValue(*memory_.host().contributions,
                                              tensor.buffer().get(), bytes)
                             : bytes >= kOwnBufferBytes;
  }

  const BufferSharing& sharing() const override { return kSharingOnHost; }

  absl::Status Stage(const RefPtr<BudgetAccount>& account,
                     absl::Span<Tensor* const> tensors) const override {
    return AllocateStaged(account, tensors);
  }

  // The store updates values in place, so it keeps them in memory of its own;
  // this is the only copy that Init makes. As a batch of updates, it uses all
  // threads.
  absl::Status Fill(const InitRequest& request,
                    absl::Span<const RefPtr<StoredKey>> keys) const override {
    std::vector<TensorView> views(keys.size());
    std::vector<TensorUpdate> copies;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!keys[i]) continue;
      views[i] = request.entries[i].tensor.view();
      TensorUpdate& copy = copies.emplace_back();
      copy.rule = &UpdateRule::Assign();
      copy.contributions = absl::MakeConstSpan(&views[i], 1);
      copy.value = {keys[i]->dtype(), views[i].num_elements,
                    keys[i]->value->mutable_data()};
    }
    return copies.empty() ? absl::OkStatus() : host_.Apply(copies);
  }

  void Send(PullReply reply, ReplyCallback<PullReply> done) const override {
    std::move(done)(std::move(reply));
  }

 private:
  Backend& host_;
  const NamespaceMemory& memory_;
};

// Returns the copies from the tensors of one reply to the other's.
std::vector<MemoryCopy> CopiesBetween(const PullReply& from, PullReply& to) {
  std::vector<MemoryCopy> copies;
  copies.reserve(from.values.size());
  for (size_t i = 0; i < from.values.size(); ++i) {
    const Tensor& tensor = from.values[i].tensor;
    copies.push_back({tensor.data(), to.values[i].tensor.mutable_data(),
                      static_cast<size_t>(tensor.size_bytes())});
  }
  return copies;
}

class DevicePlacement final : public TensorPlacement {
 public:
  DevicePlacement(Backend* device, const NamespaceMemory* memory)
      : device_(*device), memory_(*memory) {}

  bool copies() const override { return true; }

  bool CanKeep(const Tensor&) const override { return false; }

  const BufferSharing& sharing() const override { return kSharingOnDevice; }

  absl::Status Stage(const RefPtr<BudgetAccount>& account,
                     absl::Span<Tensor* const> tensors) const override {
    return AllocateStaged(
        account, tensors, kSharingOnDevice,
        [this](uint64_t bytes, RefPtr<MemoryAccount> counted_by) {
          return device_.AllocateStaging(bytes, std::move(counted_by));
        });
  }

  absl::Status Fill(const InitRequest& request,
                    absl::Span<const RefPtr<StoredKey>> keys) const override {
    std::vector<MemoryCopy> copies;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!keys[i]) continue;
      copies.push_back({request.entries[i].tensor.data(),
                        keys[i]->value->mutable_data(),
                        static_cast<size_t>(keys[i]->value_bytes())});
    }
    return copies.empty() ? absl::OkStatus() : device_.CopyToDevice(copies);
  }

  void Send(PullReply reply, ReplyCallback<PullReply> done) const override {
    if (reply.values.empty()) return std::move(done)(std::move(reply));
    absl::StatusOr<PullReply> on_host = AllocateOnHost(reply);
    if (!on_host.ok()) {
      reply = {};  // nobody reads it any more when the caller hears of it
      return std::move(done)(on_host.status());
    }
    std::vector<MemoryCopy> copies = CopiesBetween(reply, *on_host);
    device_.CopyToHost(
        std::move(copies),
        [on_device = std::move(reply), host = *std::move(on_host),
         done = std::move(done)](const absl::Status& status) mutable {
          // Memory that is not needed any more is free before the caller hears
          // of it.
          on_device = {};
          if (status.ok()) return std::move(done)(std::move(host));
          host = {};
          std::move(done)(status);
        });
  }

 private:
  // Returns a copy of `reply` with memory on the host, which is counted as
  // values, and without elements yet.
  absl::StatusOr<PullReply> AllocateOnHost(const PullReply& reply) const {
    PullReply on_host = reply;
    std::vector<Tensor*> tensors;
    tensors.reserve(on_host.values.size());
    for (Value& value : on_host.values) tensors.push_back(&value.tensor);
    RETURN_IF_ERROR(Stage(memory_.host().values, tensors));
    return on_host;
  }

  Backend& device_;
  const NamespaceMemory& memory_;
};

}  // namespace

std::unique_ptr<TensorPlacement> TensorPlacement::Create(
    Backend* device, const NamespaceMemory* memory) {
  if (device->is_host()) return std::make_unique<HostPlacement>(device, memory);
  return std::make_unique<DevicePlacement>(device, memory);
}

}  // namespace tensorkv

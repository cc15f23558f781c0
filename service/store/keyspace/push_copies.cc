#include "service/store/keyspace/push_copies.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "base/status_macros.h"
#include "kernels/backend.h"
#include "service/store/keyspace/staged_tensors.h"

namespace tensorkv {
namespace {

// The copies of a call's tensors to one device, as few as there are runs of
// memory: a tensor that is in the same buffers as the one before, and as far
// from it here as there, is copied with it. Between the two are only a few
// bytes of nobody.
class RunsOfTensors {
 public:
  // Both tensors outlive the next call.
  void Add(const Tensor& from, Tensor& to) {
    const auto bytes = static_cast<size_t>(from.size_bytes());
    if (Follows(from, to)) {
      MemoryCopy& run = copies_.back();
      run.size_bytes = from.data() + bytes - run.from;
    } else {
      copies_.push_back({from.data(), to.mutable_data(), bytes});
    }
    last_from_ = &from;
    last_to_ = &to;
  }

  std::vector<MemoryCopy> Take() { return std::move(copies_); }

 private:
  bool Follows(const Tensor& from, const Tensor& to) const {
    return last_from_ != nullptr && from.buffer() == last_from_->buffer() &&
           to.buffer() == last_to_->buffer() &&
           from.data() > last_from_->data() &&
           from.data() - last_from_->data() == to.data() - last_to_->data();
  }

  std::vector<MemoryCopy> copies_;
  const Tensor* last_from_ = nullptr;
  const Tensor* last_to_ = nullptr;
};

// Reading so many bytes once takes no longer than moving them first.
constexpr int64_t kMaxBytesReadThere = kSharingOnDevices.own_bytes;

// Says which tensors of a push stay where they are. Not thread-safe.
class StaysOnHost {
 public:
  explicit StaysOnHost(const NamespaceState& state) : state_(state) {}

  // A tensor that has no elements yet will be received where devices read it,
  // unless Staging finds no room there: then the push itself asks for room for
  // its copy, and may be refused.
  bool operator()(DeviceIndex device, const Tensor& tensor) {
    if (!MayStay(tensor)) return false;
    if (!tensor.has_data()) return true;
    const Buffer& buffer = *tensor.buffer();
    if (last_ != &buffer || last_device_ != device) {
      last_ = &buffer;
      last_device_ = device;
      can_read_ = (*state_.environment.devices)[device].CanRead(
          buffer.data(), buffer.size_bytes());
    }
    return can_read_;
  }

 private:
  // A contribution that waits for others does not stay: where it is, there must
  // be room for what comes.
  bool MayStay(const Tensor& tensor) const {
    const int64_t bytes = tensor.size_bytes();
    return state_.home->copies() && state_.mode->applies_at_once() &&
           bytes > 0 && bytes <= kMaxBytesReadThere &&
           (!tensor.has_data() ||
            IsCountedBy(*state_.memory.host().contributions, tensor));
  }

  const NamespaceState& state_;
  // What was asked last, and the answer.
  const Buffer* last_ = nullptr;
  DeviceIndex last_device_ = 0;
  bool can_read_ = false;
};

}  // namespace

uint64_t PushCopies::BytesFreedOnHost(const NamespaceState& state,
                                      const PushRequest& request,
                                      const EntriesByKey& entries) {
  uint64_t bytes = 0;
  StaysOnHost stays(state);
  for (size_t i = 0; i < entries.keys.size(); ++i) {
    const PushEntry& entry = request.entries[i];
    if (entry.skip || stays(entries.keys[i].key->device, entry.tensor)) {
      continue;
    }
    bytes += entry.tensor.size_bytes();
  }
  return bytes;
}

BytesByDevice PushCopies::BytesOf(const NamespaceState& state,
                                  const PushRequest& request,
                                  const EntriesByKey& entries) {
  BytesByDevice bytes = state.memory.NoBytes();
  if (!state.home->copies()) return bytes;
  std::vector<StagingLayout> layouts(bytes.size(),
                                     StagingLayout(state.home->sharing()));
  StaysOnHost stays(state);
  for (size_t i = 0; i < entries.keys.size(); ++i) {
    const PushEntry& entry = request.entries[i];
    const DeviceIndex device = entries.keys[i].key->device;
    if (entry.skip || stays(device, entry.tensor)) continue;
    layouts[device].Add(entry.tensor.size_bytes());
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = layouts[i].total_bytes();
  }
  return bytes;
}

void PushCopies::Place(const EntriesByKey& entries) {
  devices_.clear();
  for (const EntriesByKey::KeyOfEntry& entry : entries.keys) {
    devices_.push_back(entry.key->device);
  }
}

absl::Status PushCopies::Make(const PushRequest& request,
                              DeviceReservations& room) {
  const std::vector<PushEntry>& entries = request.entries;
  RETURN_IF_ERROR(Allocate(entries, room));
  std::vector<RunsOfTensors> runs(state_.environment.devices->size());
  std::vector<RefPtr<Buffer>>& kept = to_start_.kept;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!copies_[i].has_data()) continue;
    const Tensor& tensor = entries[i].tensor;
    runs[devices_[i]].Add(tensor, copies_[i]);
    if (kept.empty() || kept.back() != tensor.buffer()) {
      kept.push_back(tensor.buffer());
    }
  }
  for (RunsOfTensors& run : runs) to_start_.copies.push_back(run.Take());
  return absl::OkStatus();
}

// What waits for other updates, or for a checkpoint's copies of states, must be
// there when those end. With several devices an error of one would come when
// another has begun.
bool PushCopies::CanStartLater(const EntriesByKey& entries) const {
  return state_.mode->applies_at_once() && state_.cut == nullptr &&
         state_.environment.devices->size() == 1 && entries.repeats.empty() &&
         std::none_of(entries.keys.begin(), entries.keys.end(),
                      [](const EntriesByKey::KeyOfEntry& entry) {
                        return entry.key->is_updating;
                      });
}

absl::Status PushCopies::Start() {
  return state_.environment.devices->Upload(TakeToStart());
}

absl::Status PushCopies::Allocate(const std::vector<PushEntry>& entries,
                                  DeviceReservations& room) {
  const DeviceSet& devices = *state_.environment.devices;
  copies_.resize(entries.size());
  std::vector<std::vector<Tensor*>> tensors(devices.size());
  StaysOnHost stays(state_);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].skip || stays(devices_[i], entries[i].tensor)) continue;
    copies_[i] = entries[i].tensor;
    tensors[devices_[i]].push_back(&copies_[i]);
  }
  for (DeviceIndex i = 0; i < devices.size(); ++i) {
    if (tensors[i].empty()) continue;
    RETURN_IF_ERROR(AllocateReserved(
        room.TakeAll(i), tensors[i], state_.home->sharing(),
        [&device = devices[i]](uint64_t bytes, RefPtr<MemoryAccount> account) {
          return device.Allocate(bytes, std::move(account));
        }));
  }
  return absl::OkStatus();
}

bool PushCopies::AreAtTheirKeys(const EntriesByKey& entries) const {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (entries.keys[i].key->device != devices_[i]) return false;
  }
  return true;
}

void PushCopies::Swap(PushRequest& request) {
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i].has_data()) {
      std::swap(request.entries[i].tensor, copies_[i]);
    }
  }
}

}  // namespace tensorkv

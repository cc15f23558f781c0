#include "service/store/keyspace/push_copies.h"

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

// What the entries' tensors are in, without repetition in a row.
std::vector<RefPtr<Buffer>> BuffersOf(absl::Span<const PushEntry> entries) {
  std::vector<RefPtr<Buffer>> buffers;
  for (const PushEntry& entry : entries) {
    if (entry.skip) continue;
    if (!buffers.empty() && buffers.back() == entry.tensor.buffer()) continue;
    buffers.push_back(entry.tensor.buffer());
  }
  return buffers;
}

}  // namespace

BytesByDevice PushCopies::BytesOf(const NamespaceState& state,
                                  const PushRequest& request,
                                  const EntriesByKey& entries) {
  BytesByDevice bytes = state.memory.NoBytes();
  if (!state.home->copies()) return bytes;
  std::vector<StagingLayout> layouts(bytes.size(),
                                     StagingLayout(state.home->sharing()));
  for (size_t i = 0; i < entries.keys.size(); ++i) {
    const PushEntry& entry = request.entries[i];
    if (entry.skip) continue;
    layouts[entries.keys[i].key->device].Add(entry.tensor.size_bytes());
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
  const DeviceSet& devices = *state_.environment.devices;
  std::vector<RunsOfTensors> runs(devices.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].skip) runs[devices_[i]].Add(entries[i].tensor, copies_[i]);
  }
  CopiesByDevice copies;
  for (RunsOfTensors& run : runs) copies.push_back(run.Take());
  return devices.Upload(std::move(copies), BuffersOf(entries));
}

absl::Status PushCopies::Allocate(const std::vector<PushEntry>& entries,
                                  DeviceReservations& room) {
  const DeviceSet& devices = *state_.environment.devices;
  copies_.resize(entries.size());
  std::vector<std::vector<Tensor*>> tensors(devices.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].skip) continue;
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
    PushEntry& entry = request.entries[i];
    if (!entry.skip) std::swap(entry.tensor, copies_[i]);
  }
}

}  // namespace tensorkv

#include "service/store/keyspace/push/push_copies.h"

#include <algorithm>
#include <utility>

#include "base/ref_counted.h"
#include "base/status_macros.h"
#include "kernels/backend.h"
#include "service/store/keyspace/push/staged_tensors.h"

namespace tensorkv {
namespace {

// The copies of a call's tensors to the device, as few as there are runs of
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
constexpr int64_t kMaxBytesReadThere = kSharingOnDevice.own_bytes;

// Says which tensors of a push stay where they are. Not thread-safe.
class StaysOnHost {
 public:
  explicit StaysOnHost(const NamespaceState& state) : state_(state) {}

  // A tensor that has no elements yet will be received where the device reads
  // it, unless Staging finds no memory there: then the push itself reserves
  // some for its copy, and may be refused.
  bool operator()(const Tensor& tensor) {
    if (!MayStay(tensor)) return false;
    if (!tensor.has_data()) return true;
    const Buffer& buffer = *tensor.buffer();
    if (last_ != &buffer) {
      last_ = &buffer;
      can_read_ = state_.device().CanRead(buffer.data(), buffer.size_bytes());
    }
    return can_read_;
  }

 private:
  // A contribution that waits for others does not stay: where it is, there must
  // be memory for what comes.
  bool MayStay(const Tensor& tensor) const {
    const int64_t bytes = tensor.size_bytes();
    return state_.tensor_placement->copies() &&
           state_.mode->applies_at_once() && bytes > 0 &&
           bytes <= kMaxBytesReadThere &&
           (!tensor.has_data() ||
            IsCountedBy(*state_.memory.host().contributions, tensor));
  }

  const NamespaceState& state_;
  // The last question, and its answer.
  const Buffer* last_ = nullptr;
  bool can_read_ = false;
};

}  // namespace

uint64_t PushCopies::BytesFreedOnHost(const NamespaceState& state,
                                      const PushRequest& request) {
  uint64_t bytes = 0;
  StaysOnHost stays(state);
  for (const PushEntry& entry : request.entries) {
    if (!BringsNothing(entry) && !stays(entry.tensor)) {
      bytes += entry.tensor.size_bytes();
    }
  }
  return bytes;
}

uint64_t PushCopies::BytesOf(const NamespaceState& state,
                             const PushRequest& request) {
  if (!state.tensor_placement->copies()) return 0;
  StagingLayout layout(state.tensor_placement->sharing());
  StaysOnHost stays(state);
  for (const PushEntry& entry : request.entries) {
    if (!BringsNothing(entry) && !stays(entry.tensor)) {
      layout.Add(entry.tensor.size_bytes());
    }
  }
  return layout.total_bytes();
}

absl::Status PushCopies::Make(const PushRequest& request,
                              Reservation reservation) {
  const std::vector<PushEntry>& entries = request.entries;
  copies_.resize(entries.size());
  std::vector<Tensor*> tensors;
  StaysOnHost stays(state_);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (BringsNothing(entries[i]) || stays(entries[i].tensor)) continue;
    copies_[i] = entries[i].tensor;
    tensors.push_back(&copies_[i]);
  }
  RETURN_IF_ERROR(AllocateStagedReserved(
      std::move(reservation), tensors, state_.tensor_placement->sharing(),
      [this](uint64_t bytes, RefPtr<MemoryAccount> account) {
        return state_.device().Allocate(bytes, std::move(account));
      }));
  RunsOfTensors runs;
  std::vector<RefPtr<Buffer>>& kept = to_start_.kept;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!copies_[i].has_data()) continue;
    const Tensor& tensor = entries[i].tensor;
    runs.Add(tensor, copies_[i]);
    if (kept.empty() || kept.back() != tensor.buffer()) {
      kept.push_back(tensor.buffer());
    }
  }
  to_start_.copies = runs.Take();
  return absl::OkStatus();
}

// Checks that contributions to updates that wait for others, or for copies for
// snapshots, are there when those end.
bool PushCopies::CanStartLater(const EntriesByKey& entries) const {
  const uint64_t newest = state_.snapshots->newest();
  return state_.mode->applies_at_once() && entries.repeats.empty() &&
         std::none_of(entries.keys.begin(), entries.keys.end(),
                      [newest](const EntriesByKey::KeyOfEntry& entry) {
                        const StoredKey& key = *entry.key;
                        return key.is_updating || key.revision <= newest;
                      });
}

absl::Status PushCopies::Start() {
  if (has_started()) return absl::OkStatus();
  return tensorkv::Start(state_.device(), TakeToStart());
}

void PushCopies::Swap(PushRequest& request) {
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (!copies_[i].has_data()) continue;
    PushEntry& entry = request.entries[i];
    // No update keeps the copy of what is skipped.
    if (entry.skip) to_start_.kept.push_back(copies_[i].buffer());
    std::swap(entry.tensor, copies_[i]);
  }
}

}  // namespace tensorkv

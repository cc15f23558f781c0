#include "service/store/keyspace/push/staged_tensors.h"

#include <utility>

#include "base/status_macros.h"

namespace tensorkv {
namespace {

uint64_t Aligned(uint64_t offset) {
  return (offset + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// The places of tensors, by their order.
struct StagedPlaces {
  StagedPlaces(absl::Span<Tensor* const> tensors, const BufferSharing& sharing)
      : layout(sharing) {
    places.reserve(tensors.size());
    for (const Tensor* tensor : tensors) {
      places.push_back(layout.Add(tensor->size_bytes()));
    }
  }

  StagingLayout layout;
  std::vector<StagingLayout::Position> places;
};

absl::Status Allocate(const StagedPlaces& staged, Reservation reservation,
                      absl::Span<Tensor* const> tensors,
                      AllocateBuffer allocate) {
  std::vector<RefPtr<Buffer>> buffers;
  buffers.reserve(staged.layout.buffer_bytes().size());
  for (const uint64_t bytes : staged.layout.buffer_bytes()) {
    ASSIGN_OR_RETURN(buffers.emplace_back(),
                     AllocateReserved(reservation.Split(bytes), allocate));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [buffer, offset] = staged.places[i];
    tensors[i]->SetBuffer(buffers[buffer], offset);
  }
  return absl::OkStatus();
}

}  // namespace

StagingLayout::Position StagingLayout::Add(uint64_t size_bytes) {
  if (size_bytes >= sharing_.own_bytes) return AddBuffer(size_bytes);
  if (has_shared_) {
    uint64_t& end = buffer_bytes_[shared_];
    const uint64_t offset = Aligned(end);
    if (offset + size_bytes <= sharing_.max_shared_bytes) {
      total_bytes_ = SumOfBytes(total_bytes_, offset + size_bytes - end);
      end = offset + size_bytes;
      return {shared_, offset};
    }
  }
  has_shared_ = true;
  shared_ = buffer_bytes_.size();
  return AddBuffer(size_bytes);
}

StagingLayout::Position StagingLayout::AddBuffer(uint64_t size_bytes) {
  buffer_bytes_.push_back(size_bytes);
  total_bytes_ = SumOfBytes(total_bytes_, size_bytes);
  return {buffer_bytes_.size() - 1, 0};
}

absl::Status AllocateStaged(const RefPtr<BudgetAccount>& account,
                            absl::Span<Tensor* const> tensors) {
  return AllocateStaged(account, tensors, kSharingOnHost,
                        &HostBuffer::Allocate);
}

absl::Status AllocateStaged(const RefPtr<BudgetAccount>& account,
                            absl::Span<Tensor* const> tensors,
                            const BufferSharing& sharing,
                            AllocateBuffer allocate) {
  const StagedPlaces staged(tensors, sharing);
  ASSIGN_OR_RETURN(Reservation reservation,
                   Reservation::Create(account, staged.layout.total_bytes()));
  return Allocate(staged, std::move(reservation), tensors, allocate);
}

absl::Status AllocateStagedReserved(Reservation reservation,
                                    absl::Span<Tensor* const> tensors,
                                    const BufferSharing& sharing,
                                    AllocateBuffer allocate) {
  return Allocate(StagedPlaces(tensors, sharing), std::move(reservation),
                  tensors, allocate);
}

// Asks for the owners first: while there are others, one of them may be about
// to change the account.
bool CanBecomeValue(const BudgetAccount& account, const Buffer* buffer,
                    uint64_t size_bytes) {
  return size_bytes >= kOwnBufferBytes && buffer != nullptr &&
         buffer->size_bytes() == size_bytes && buffer->IsUnique() &&
         buffer->account() == &account;
}

}  // namespace tensorkv

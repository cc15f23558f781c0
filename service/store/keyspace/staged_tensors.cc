#include "service/store/keyspace/staged_tensors.h"

#include <utility>

#include "base/status_macros.h"

namespace tensorkv {
namespace {

uint64_t Aligned(uint64_t offset) {
  return (offset + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

StagingLayout::Place StagingLayout::Add(uint64_t size_bytes) {
  if (size_bytes >= kOwnBufferBytes) return AddBuffer(size_bytes);
  if (has_shared_) {
    uint64_t& end = buffer_bytes_[shared_];
    const uint64_t offset = Aligned(end);
    if (offset + size_bytes <= kMaxSharedBufferBytes) {
      total_bytes_ = SumOfBytes(total_bytes_, offset + size_bytes - end);
      end = offset + size_bytes;
      return {shared_, offset};
    }
  }
  has_shared_ = true;
  shared_ = buffer_bytes_.size();
  return AddBuffer(size_bytes);
}

StagingLayout::Place StagingLayout::AddBuffer(uint64_t size_bytes) {
  buffer_bytes_.push_back(size_bytes);
  total_bytes_ = SumOfBytes(total_bytes_, size_bytes);
  return {buffer_bytes_.size() - 1, 0};
}

absl::Status AllocateStaged(const RefPtr<BudgetAccount>& account,
                            absl::Span<Tensor* const> tensors) {
  StagingLayout layout;
  std::vector<StagingLayout::Place> places;
  places.reserve(tensors.size());
  for (const Tensor* tensor : tensors) {
    places.push_back(layout.Add(tensor->size_bytes()));
  }
  ASSIGN_OR_RETURN(Reservation room,
                   Reservation::Create(account, layout.total_bytes()));
  std::vector<RefPtr<Buffer>> buffers;
  buffers.reserve(layout.buffer_bytes().size());
  for (const uint64_t bytes : layout.buffer_bytes()) {
    ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                     HostBuffer::Allocate(bytes, account));
    room.Split(bytes).HandOver();
    buffers.push_back(std::move(buffer));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i]->SetBuffer(buffers[places[i].buffer], places[i].offset);
  }
  return absl::OkStatus();
}

bool IsCountedBy(const BudgetAccount& account, const Tensor& tensor) {
  return tensor.has_data() && tensor.buffer()->account().get() == &account;
}

// Asks for the owners first: while there are others, one of them may be about
// to change the account.
bool CanBecomeValue(const BudgetAccount& account, const Buffer* buffer,
                    uint64_t size_bytes) {
  return size_bytes >= kOwnBufferBytes && buffer != nullptr &&
         buffer->size_bytes() == size_bytes && buffer->IsUnique() &&
         buffer->account().get() == &account;
}

}  // namespace tensorkv

#include "kernels/cuda/pinned_arena.h"

#include <algorithm>
#include <iterator>

namespace tensorkv {
namespace {

// Locking the pages of so many bytes costs about as much as copying them.
constexpr size_t kBlockBytes = size_t{64} << 20;

size_t RoundedUp(size_t size_bytes) {
  return (size_bytes + kBufferAlignment - 1) / kBufferAlignment *
         kBufferAlignment;
}

}  // namespace

class PinnedArena::PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(std::shared_ptr<PinnedArena> arena, char* data,
               size_t size_bytes, RefPtr<MemoryAccount> account)
      : Buffer(data, size_bytes, std::move(account)),
        arena_(std::move(arena)) {}
  ~PinnedBuffer() override { arena_->Free(mutable_data(), size_bytes()); }

 private:
  const std::shared_ptr<PinnedArena> arena_;
};

RefPtr<Buffer> PinnedArena::Allocate(size_t size_bytes,
                                     RefPtr<MemoryAccount> account) {
  if (size_bytes == 0 || size_bytes > max_bytes_) return nullptr;
  char* data = TakeFree(RoundedUp(size_bytes));
  if (data == nullptr && Grow(RoundedUp(size_bytes))) {
    data = TakeFree(RoundedUp(size_bytes));
  }
  if (data == nullptr) return nullptr;
  return RefPtr<Buffer>(new PinnedBuffer(shared_from_this(), data, size_bytes,
                                         std::move(account)));
}

// Returns the smallest piece that is large enough.
char* PinnedArena::TakeFree(size_t size_bytes) {
  MutexLock lock(&mutex_);
  const auto found = free_by_size_.lower_bound({size_bytes, nullptr});
  if (found == free_by_size_.end()) return nullptr;
  const auto [piece_bytes, data] = *found;
  RemoveFree(free_.find(data));
  if (piece_bytes > size_bytes) {
    AddFree(data + size_bytes, piece_bytes - size_bytes);
  }
  used_bytes_ += size_bytes;
  return data;
}

// Whoever waited for another to grow looks again before it does.
bool PinnedArena::Grow(size_t size_bytes) {
  MutexLock growth_lock(&growth_mutex_);
  size_t block_bytes;
  {
    MutexLock lock(&mutex_);
    if (!free_by_size_.empty() && free_by_size_.rbegin()->first >= size_bytes) {
      return true;
    }
    block_bytes =
        std::min(std::max(size_bytes, kBlockBytes), max_bytes_ - size_bytes_) /
        kBufferAlignment * kBufferAlignment;
  }
  if (block_bytes < size_bytes) return false;
  absl::StatusOr<PinnedMemory> block =
      PinnedMemory::Create(&pool_->device(), block_bytes);
  if (!block.ok()) return false;
  MutexLock lock(&mutex_);
  AddFree(block->data(), block_bytes);
  size_bytes_ += block_bytes;
  blocks_.emplace(block->data(), *std::move(block));
  return true;
}

// Joins it with those before and after, unless a block begins between.
void PinnedArena::Free(char* data, size_t size_bytes) {
  size_bytes = RoundedUp(size_bytes);
  MutexLock lock(&mutex_);
  used_bytes_ -= size_bytes;
  const auto after = free_.find(data + size_bytes);
  if (after != free_.end() && !blocks_.contains(after->first)) {
    size_bytes += after->second;
    RemoveFree(after);
  }
  auto before = free_.lower_bound(data);
  if (before != free_.begin() && !blocks_.contains(data)) {
    --before;
    if (before->first + before->second == data) {
      data = before->first;
      size_bytes += before->second;
      RemoveFree(before);
    }
  }
  AddFree(data, size_bytes);
}

void PinnedArena::AddFree(char* data, size_t size_bytes) {
  free_.emplace(data, size_bytes);
  free_by_size_.emplace(size_bytes, data);
}

void PinnedArena::RemoveFree(std::map<char*, size_t>::iterator it) {
  free_by_size_.erase({it->second, it->first});
  free_.erase(it);
}

absl::Span<const char> PinnedArena::BlockOf(const char* data) const {
  MutexLock lock(&mutex_);
  const auto next = blocks_.upper_bound(data);
  if (next == blocks_.begin()) return {};
  const PinnedMemory& block = std::prev(next)->second;
  if (data >= block.data() + block.size_bytes()) return {};
  return {block.data(), block.size_bytes()};
}

size_t PinnedArena::size_bytes() const {
  MutexLock lock(&mutex_);
  return size_bytes_;
}

size_t PinnedArena::used_bytes() const {
  MutexLock lock(&mutex_);
  return used_bytes_;
}

}  // namespace tensorkv

#include "tensor/buffer_pool.h"

#include <bit>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensor/host_memory.h"

namespace tensorkv {
namespace {

constexpr int kClassesPerDoubling = 8;

// So that rounding up does not overflow.
constexpr size_t kMaxBytes = std::numeric_limits<size_t>::max() / 2;

// Returns the smallest class that holds `size_bytes`.
// REQUIRES: BufferPool::kMinPooledBytes <= size_bytes <= kMaxBytes.
size_t ClassOf(size_t size_bytes) {
  const size_t step = std::bit_floor(size_bytes) / kClassesPerDoubling;
  return (size_bytes + step - 1) / step * step;
}

}  // namespace

// Returns its memory to the pool.
class PooledBuffer final : public Buffer {
 public:
  PooledBuffer(RefPtr<BufferPool> pool, char* data, size_t size_bytes,
               RefPtr<MemoryAccount> account)
      : Buffer(data, size_bytes, std::move(account)), pool_(std::move(pool)) {}
  ~PooledBuffer() override {
    pool_->Return({mutable_data(), ClassOf(size_bytes())});
  }

 private:
  const RefPtr<BufferPool> pool_;
};

BufferPool::~BufferPool() { Delete(idle_); }

absl::StatusOr<RefPtr<Buffer>> BufferPool::Allocate(
    size_t size_bytes, RefPtr<MemoryAccount> account) {
  if (size_bytes < kMinPooledBytes) {
    return HostBuffer::Allocate(size_bytes, std::move(account));
  }
  char* data = nullptr;
  if (size_bytes <= kMaxBytes) {
    const size_t class_bytes = ClassOf(size_bytes);
    data = TakeIdle(class_bytes);
    if (data == nullptr) {
      data = static_cast<char*>(AllocateHostMemory(class_bytes));
    }
  }
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("host memory: cannot allocate ", size_bytes, " bytes"));
  }
  return RefPtr<Buffer>(new PooledBuffer(RefPtr<BufferPool>(this), data,
                                         size_bytes, std::move(account)));
}

size_t BufferPool::TrimUnused() {
  MemoryList removed;
  size_t left = 0;
  {
    MutexLock lock(&mutex_);
    while (!idle_.empty() && idle_.front().num_trims < num_trims_) {
      RemoveOldest(removed);
    }
    ++num_trims_;
    left = idle_bytes_;
  }
  Delete(removed);
  return left;
}

size_t BufferPool::idle_bytes() const {
  MutexLock lock(&mutex_);
  return idle_bytes_;
}

char* BufferPool::TakeIdle(size_t class_bytes) {
  MutexLock lock(&mutex_);
  const auto found = by_class_.find(class_bytes);
  if (found == by_class_.end()) return nullptr;
  // The latest: most likely still in a cache.
  const MemoryList::iterator memory = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) by_class_.erase(found);
  char* const data = memory->data;
  idle_bytes_ -= memory->class_bytes;
  idle_.erase(memory);
  return data;
}

void BufferPool::Return(Memory memory) {
  MemoryList removed;
  bool is_first = false;
  {
    MutexLock lock(&mutex_);
    is_first = idle_bytes_ == 0;
    memory.num_trims = num_trims_;
    idle_.push_back(memory);
    by_class_[memory.class_bytes].push_back(std::prev(idle_.end()));
    idle_bytes_ += memory.class_bytes;
    while (idle_bytes_ > max_idle_bytes_) RemoveOldest(removed);
    is_first &= idle_bytes_ > 0;
  }
  Delete(removed);
  if (is_first && on_idle_) on_idle_();
}

void BufferPool::Delete(const MemoryList& list) {
  for (const Memory& memory : list) FreeHostMemory(memory.data);
}

void BufferPool::RemoveOldest(MemoryList& removed) {
  const MemoryList::iterator oldest = idle_.begin();
  const auto found = by_class_.find(oldest->class_bytes);
  found->second.pop_front();
  if (found->second.empty()) by_class_.erase(found);
  idle_bytes_ -= oldest->class_bytes;
  removed.splice(removed.end(), idle_, oldest);
}

}  // namespace tensorkv

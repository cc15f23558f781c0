#include "tensor/buffer.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensor/host_memory.h"

namespace tensorkv {

static_assert(kBufferAlignment <= kHostMemoryAlignment);

absl::StatusOr<RefPtr<Buffer>> HostBuffer::Allocate(
    size_t size_bytes, RefPtr<MemoryAccount> account) {
  void* const data = AllocateHostMemory(size_bytes);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("host memory: cannot allocate ", size_bytes, " bytes"));
  }
  return RefPtr<Buffer>(
      new HostBuffer(static_cast<char*>(data), size_bytes, std::move(account)));
}

HostBuffer::~HostBuffer() { FreeHostMemory(mutable_data()); }

AdoptedBuffer::AdoptedBuffer(const void* data, size_t size_bytes,
                             absl::AnyInvocable<void() &&> release)
    : Buffer(static_cast<char*>(const_cast<void*>(data)), size_bytes,
             /*account=*/nullptr),
      release_(std::move(release)) {}

AdoptedBuffer::~AdoptedBuffer() { std::move(release_)(); }

}  // namespace tensorkv

#include "tensor/buffer.h"

#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tensorkv {
namespace {

constexpr std::align_val_t kAlignment{kBufferAlignment};

}  // namespace

absl::StatusOr<RefPtr<Buffer>> HostBuffer::Allocate(
    size_t size_bytes, RefPtr<MemoryAccount> account) {
  void* data = ::operator new(size_bytes, kAlignment, std::nothrow);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("host memory: cannot allocate ", size_bytes, " bytes"));
  }
  return RefPtr<Buffer>(
      new HostBuffer(static_cast<char*>(data), size_bytes, std::move(account)));
}

HostBuffer::~HostBuffer() { ::operator delete(mutable_data(), kAlignment); }

AdoptedBuffer::AdoptedBuffer(const void* data, size_t size_bytes,
                             absl::AnyInvocable<void() &&> release)
    : Buffer(static_cast<char*>(const_cast<void*>(data)), size_bytes,
             /*account=*/nullptr),
      release_(std::move(release)) {}

AdoptedBuffer::~AdoptedBuffer() { std::move(release_)(); }

}  // namespace tensorkv

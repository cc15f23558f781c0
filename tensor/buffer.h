// Memory that tensors share.

#ifndef TENSORKV_TENSOR_BUFFER_H_
#define TENSORKV_TENSOR_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/ref_counted.h"

namespace tensorkv {

// Alignment of the memory that HostBuffer allocates: one cache line, one
// AVX-512 register.
inline constexpr size_t kBufferAlignment = 64;

// Whoever counts the memory of a buffer. Thread-safe.
class MemoryAccount : public RefCounted {
 public:
  // `bytes` that were counted before are free again. Must not block.
  virtual void Release(int64_t bytes) = 0;
};

// A run of bytes, shared by RefPtr and released with the last of them. May be
// device memory; then `data` must not be dereferenced on the host.
//
// The bytes may be written while the buffer has one owner and nobody reads
// it; from then on they are immutable. `IsUnique` tells an owner that all
// readers are gone.
class Buffer : public RefCounted {
 public:
  ~Buffer() override {
    if (account_) account_->Release(static_cast<int64_t>(size_bytes_));
  }

  const char* data() const { return data_; }
  // REQUIRES: the caller's reference is the only one, and the memory was not
  // adopted from a reader.
  char* mutable_data() { return data_; }
  size_t size_bytes() const { return size_bytes_; }

  // Who counts the bytes; null if nobody does.
  const RefPtr<MemoryAccount>& account() const { return account_; }
  // Has `account` get the bytes back in the end. Returns who would have: the
  // caller settles with both.
  // REQUIRES: the caller's reference is the only one.
  [[nodiscard]] RefPtr<MemoryAccount> ExchangeAccount(
      RefPtr<MemoryAccount> account) {
    std::swap(account_, account);
    return account;
  }

 protected:
  // `account`, if any, gets the bytes back when the buffer is destroyed.
  Buffer(char* data, size_t size_bytes, RefPtr<MemoryAccount> account)
      : data_(data), size_bytes_(size_bytes), account_(std::move(account)) {}

 private:
  char* const data_;
  const size_t size_bytes_;
  RefPtr<MemoryAccount> account_;
};

// Host memory, 64-byte aligned, uninitialised.
class HostBuffer final : public Buffer {
 public:
  // `account` has counted `size_bytes` already; if the allocation fails, the
  // caller releases them.
  // Errors: ResourceExhausted if the system has no memory left.
  static absl::StatusOr<RefPtr<Buffer>> Allocate(
      size_t size_bytes, RefPtr<MemoryAccount> account = nullptr);
  ~HostBuffer() override;

 private:
  HostBuffer(char* data, size_t size_bytes, RefPtr<MemoryAccount> account)
      : Buffer(data, size_bytes, std::move(account)) {}
};

// Read-only memory that somebody else owns, aligned as it happens to be.
class AdoptedBuffer final : public Buffer {
 public:
  // `release` runs when the last reference goes, on that thread.
  AdoptedBuffer(const void* data, size_t size_bytes,
                absl::AnyInvocable<void() &&> release);
  ~AdoptedBuffer() override;

 private:
  absl::AnyInvocable<void() &&> release_;
};

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_BUFFER_H_

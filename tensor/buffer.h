// Memory that tensors share.

#ifndef TENSORKV_TENSOR_BUFFER_H_
#define TENSORKV_TENSOR_BUFFER_H_

#include <atomic>
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

// A budget that counts the memory of buffers. Thread-safe.
class MemoryAccount : public RefCounted {
 public:
  // Gives back `bytes` that were counted before. Must not block.
  virtual void Release(int64_t bytes) = 0;
};

// A run of bytes, shared by RefPtr and released with the last RefPtr. May be
// device memory; then `data` must not be dereferenced on the host.
//
// The bytes may be written while the buffer has one owner and nobody reads
// it; from then on they are immutable. `IsUnique` tells an owner that all
// readers are gone.
class Buffer : public RefCounted {
 public:
  ~Buffer() override {
    MemoryAccount* const counted_by = account();
    if (counted_by == nullptr) return;
    counted_by->Release(static_cast<int64_t>(size_bytes_));
    counted_by->Unref();
  }

  const char* data() const { return data_; }
  // REQUIRES: the caller's reference is the only one, and this is no
  // AdoptedBuffer.
  char* mutable_data() { return data_; }
  size_t size_bytes() const { return size_bytes_; }

  // Returns the account that counts the bytes, and gets them back when the
  // buffer is destroyed; null if none does.
  MemoryAccount* account() const {
    return account_.load(std::memory_order_relaxed);
  }
  // Makes `account`, or none, the buffer's account, and returns the former one.
  // Changes the count of neither: the caller must count the bytes in `account`
  // and release them in the former one. Others may have references and compare
  // account() meanwhile.
  [[nodiscard]] RefPtr<MemoryAccount> ExchangeAccount(
      RefPtr<MemoryAccount> account) {
    MemoryAccount* const former =
        account_.exchange(account.release(), std::memory_order_acq_rel);
    RefPtr<MemoryAccount> returned(former);
    if (former != nullptr) former->Unref();
    return returned;
  }

 protected:
  // `account`, if any, gets the bytes back when the buffer is destroyed.
  Buffer(char* data, size_t size_bytes, RefPtr<MemoryAccount> account)
      : data_(data), size_bytes_(size_bytes), account_(account.release()) {}

 private:
  char* const data_;
  const size_t size_bytes_;
  // Has a reference to it.
  std::atomic<MemoryAccount*> account_;
};

// Host memory, 64-byte aligned, uninitialised.
class HostBuffer final : public Buffer {
 public:
  // Returns a new buffer. `account`, if any, must have counted `size_bytes`
  // already, and gets them back when the buffer is destroyed; if the allocation
  // fails, the caller must release them.
  // Errors: ResourceExhausted if the system has no memory left.
  static absl::StatusOr<RefPtr<Buffer>> Allocate(
      size_t size_bytes, RefPtr<MemoryAccount> account = nullptr);
  ~HostBuffer() override;

 private:
  HostBuffer(char* data, size_t size_bytes, RefPtr<MemoryAccount> account)
      : Buffer(data, size_bytes, std::move(account)) {}
};

// Read-only memory that another owner has lent, of any alignment.
class AdoptedBuffer final : public Buffer {
 public:
  // `data` must stay as it is until `release` is called: once, when the last
  // reference is dropped, on the thread that drops it.
  AdoptedBuffer(const void* data, size_t size_bytes,
                absl::AnyInvocable<void() &&> release);
  ~AdoptedBuffer() override;

 private:
  absl::AnyInvocable<void() &&> release_;
};

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_BUFFER_H_

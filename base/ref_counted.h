// Shared ownership by a count inside the object.
//
// Differs from std::shared_ptr in the one question the store must ask:
// `IsUnique` synchronises with the release of every other reference, so an
// owner who sees true may write what the others have read. It also fits into
// one pointer, which is what C interfaces carry.

#ifndef TENSORKV_BASE_REF_COUNTED_H_
#define TENSORKV_BASE_REF_COUNTED_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tensorkv {

// Base of objects owned by RefPtr. Starts with no reference.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  virtual ~RefCounted() = default;

  // Adds a reference.
  void Ref() const { references_.fetch_add(1, std::memory_order_relaxed); }
  // Drops a reference; deletes the object with the last.
  void Unref() const {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  // Returns whether the caller's reference is the only one.
  bool IsUnique() const {
    return references_.load(std::memory_order_acquire) == 1;
  }

 private:
  mutable std::atomic<int32_t> references_{0};
};

// A smart pointer to a RefCounted object. As thread-safe as a raw pointer;
// copies of one RefPtr may be used from different threads.
template <typename T>
class RefPtr {
 public:
  RefPtr() = default;
  RefPtr(std::nullptr_t) {}
  explicit RefPtr(T* object) : object_(object) {
    if (object_ != nullptr) object_->Ref();
  }
  RefPtr(const RefPtr& other) : RefPtr(other.object_) {}
  RefPtr(RefPtr&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)) {}
  // Makes a pointer to a base class.
  template <typename U>
  RefPtr(RefPtr<U> other) : object_(other.release()) {}
  RefPtr& operator=(RefPtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~RefPtr() {
    if (object_ != nullptr) object_->Unref();
  }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const RefPtr& a, const RefPtr& b) {
    return a.object_ == b.object_;
  }

  // Returns the pointer, whose reference the caller must drop (Unref); this one
  // is null then.
  T* release() { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

template <typename T, typename... Args>
RefPtr<T> MakeRefCounted(Args&&... args) {
  return RefPtr<T>(new T(std::forward<Args>(args)...));
}

}  // namespace tensorkv

#endif  // TENSORKV_BASE_REF_COUNTED_H_

// Staging without a store behind it.

#ifndef TENSORKV_TESTS_SERVICE_FAKE_STAGING_H_
#define TENSORKV_TESTS_SERVICE_FAKE_STAGING_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "service/store/staging.h"

namespace tensorkv::testing {

// Gives every tensor a buffer of its own, and answers checks as the test says.
// Thread-safe.
class FakeStaging final : public Staging {
 public:
  // What checks and Allocate answer from now on.
  void set_check_status(const absl::Status& status) {
    MutexLock lock(&mutex_);
    check_status_ = status;
  }
  void set_allocate_status(const absl::Status& status) {
    MutexLock lock(&mutex_);
    allocate_status_ = status;
  }

  void set_reads_in_place() {
    MutexLock lock(&mutex_);
    reads_in_place_ = true;
  }

  absl::Status CheckInit(const InitRequest&, const CallContext&) override {
    return Check();
  }
  absl::Status CheckPush(const PushRequest&, const CallContext&) override {
    return Check();
  }
  absl::Status CheckSetState(const SetStateRequest&,
                             const CallContext&) override {
    return Check();
  }

  absl::Status Allocate(absl::string_view, absl::Span<Tensor* const> tensors,
                        const CallContext&) override {
    MutexLock lock(&mutex_);
    ++num_allocate_calls_;
    RETURN_IF_ERROR(allocate_status_);
    for (Tensor* tensor : tensors) {
      ASSIGN_OR_RETURN(*tensor,
                       Tensor::Allocate(tensor->dtype(), tensor->shape()));
    }
    return absl::OkStatus();
  }

  bool ReadsInPlace(absl::string_view) override {
    MutexLock lock(&mutex_);
    return reads_in_place_;
  }

  int num_allocate_calls() {
    MutexLock lock(&mutex_);
    return num_allocate_calls_;
  }

 private:
  absl::Status Check() {
    MutexLock lock(&mutex_);
    return check_status_;
  }

  Mutex mutex_;
  bool reads_in_place_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status check_status_ ABSL_GUARDED_BY(mutex_);
  absl::Status allocate_status_ ABSL_GUARDED_BY(mutex_);
  int num_allocate_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_FAKE_STAGING_H_

// A store that keeps its tensors on a fake GPU.

#ifndef TENSORKV_TESTS_SERVICE_STORE_GPU_STORE_H_
#define TENSORKV_TESTS_SERVICE_STORE_GPU_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/answer.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

// What sets the answer to a call.
template <typename Reply>
ReplyCallback<Reply> CallbackOf(Answer<absl::StatusOr<Reply>> answer) {
  return
      [answer](absl::StatusOr<Reply> reply) { answer.Set(std::move(reply)); };
}

// Tests call the namespace "default", with f32 vectors.
class GpuStoreTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBudgetBytes = 1 << 20;
  // Elements of a value that takes half the budget, and some more.
  static constexpr int64_t kHalf = 140'000;

  explicit GpuStoreTest(uint64_t budget_bytes = kBudgetBytes)
      : backend_(*CudaBackend::Create(gpu_.Open(),
                                      {.quota_bytes = 8 * budget_bytes})),
        store_(std::make_unique<MemoryTensorStore>(
            MemoryTensorStoreOptions{.budget_bytes = budget_bytes,
                                     .device_budget_bytes = budget_bytes},
            backend_.get(), &alarms_)) {}

  static Tensor Filled(int64_t size, double value) {
    return *Tensor::Filled(DType::kF32, {size}, value);
  }

  absl::Status Init(const std::string& key, Tensor tensor) {
    InitRequest request;
    request.entries.push_back({key, std::move(tensor)});
    return InitNow(*store_, std::move(request)).status();
  }
  absl::Status Push(const std::string& key, Tensor tensor) {
    PushRequest request;
    request.entries.push_back({key, false, std::move(tensor)});
    const Answer<absl::StatusOr<PushReply>> answer;
    store_->Push(std::move(request), {}, CallbackOf(answer));
    return answer.Wait().status();
  }
  static PullRequest PullOf(const std::vector<std::string>& keys) {
    PullRequest request;
    for (const std::string& key : keys) request.entries.push_back({key, 0});
    return request;
  }
  absl::StatusOr<PullReply> Pull(const std::vector<std::string>& keys,
                                 CallContext context = {}) {
    const Answer<absl::StatusOr<PullReply>> answer;
    store_->Pull(PullOf(keys), std::move(context), CallbackOf(answer));
    return answer.Wait();
  }

  // Expects `call`, which must be refused, to ask nothing of the device, and to
  // leave nothing counted.
  template <typename Call>
  void ExpectRefusedFromTheHost(Call call, absl::StatusCode code) {
    const v1::MemoryUse before = testing::Described(*store_).memory();
    gpu_.FailCall(0, absl::InternalError("the device was asked"));

    EXPECT_THAT(call(), StatusIs(code));

    EXPECT_FALSE(gpu_.has_injected());
    const v1::MemoryUse after = testing::Described(*store_).memory();
    EXPECT_EQ(after.contributions(), before.contributions());
    EXPECT_LE(after.values(), before.values());
  }

  // Has copies to the GPU wait for slots until the stream is released: those
  // from memory that was not staged.
  void HoldSlots() {
    gpu_.Hold(StreamUse::kToDevice);
    const char byte = 0;
    const RefPtr<Buffer> to = *backend_->Allocate(1, nullptr);
    for (int i = 0; i < StagedCopiesOptions().num_slots; ++i) {
      ASSERT_OK(backend_->Submit({.uploads = {{&byte, to->mutable_data(), 1}}},
                                 [](absl::Status) {}));
    }
    num_allocations_ = gpu_.num_allocations();
  }
  // Returns when somebody has allocated memory since, as for such a copy.
  void WaitForAllocation() {
    while (gpu_.num_allocations() == num_allocations_) {
      std::this_thread::yield();
    }
  }

  // Bytes of values, those that are being read included.
  uint64_t ValueBytes() {
    return testing::Described(*store_).memory().values();
  }

  FakeGpu gpu_;
  FakeAlarms alarms_;
  std::unique_ptr<CudaBackend> backend_;
  std::unique_ptr<MemoryTensorStore> store_;

 private:
  int64_t num_allocations_ = 0;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_STORE_GPU_STORE_H_

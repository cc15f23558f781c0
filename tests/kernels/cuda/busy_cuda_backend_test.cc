// A backend of CUDA under the hands of several callers.

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/answer.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/testing/background.h"
#include "tests/testing/device_tensors.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace testing {
namespace {

using ::testing::HasSubstr;

class BusyCudaBackendTest : public ::testing::Test {
 protected:
  using Call = Background<std::function<absl::Status()>>;

  // With slots so small that tensors take many parts, and callers wait for
  // them.
  void Start(const FakeGpuOptions& options, int num_slots) {
    gpu_ = std::make_unique<FakeGpu>(options);
    ASSERT_OK_AND_ASSIGN(
        backend_,
        CudaBackend::Create(gpu_->Open(), {.quota_bytes = 256 << 20,
                                           .staging = {.num_slots = num_slots,
                                                       .slot_bytes = 1000}}));
  }
  void TearDown() override {
    backend_ = nullptr;
    EXPECT_EQ(gpu_->usage(), FakeGpu::Usage());
  }

  // A vector of `size` elements that count up from `first`.
  static Tensor Counting(int64_t size, int64_t first) {
    Tensor tensor = *Tensor::Allocate(DType::kI64, {size});
    for (int64_t& element : tensor.mutable_elements<int64_t>()) {
      element = first++;
    }
    return tensor;
  }

  // There and back.
  absl::Status RoundTrip(int64_t size, int64_t first) {
    const Tensor sent = Counting(size, first);
    ASSIGN_OR_RETURN(const Tensor device, ToDevice(*backend_, sent));
    ASSIGN_OR_RETURN(const Tensor received, ToHost(*backend_, device));
    return received.elements<int64_t>() == sent.elements<int64_t>()
               ? absl::OkStatus()
               : absl::DataLossError("wrong elements");
  }

  // Adds a tensor to itself.
  absl::Status Double(Tensor& tensor) {
    static const auto* const kAdd =
        new UpdateRule(*UpdateRule::Create({"accumulate"}));
    const TensorView view = tensor.view();
    return backend_->Apply({{.rule = kAdd,
                             .stored = view,
                             .contributions = {&view, 1},
                             .value = tensor.mutable_view()}});
  }

  // `num_calls` at once, each many parts, up, doubled in between, and down.
  void ExpectConcurrentCallsWork(int num_calls) {
    std::vector<std::unique_ptr<Call>> calls;
    for (int i = 0; i < num_calls; ++i) {
      calls.push_back(std::make_unique<Call>([this, i]() -> absl::Status {
        ASSIGN_OR_RETURN(Tensor device,
                         ToDevice(*backend_, Counting(1500, 100 * i)));
        RETURN_IF_ERROR(Double(device));
        ASSIGN_OR_RETURN(const Tensor host, ToHost(*backend_, device));
        const int64_t last = host.elements<int64_t>().back();
        EXPECT_EQ(last, 2 * (100 * i + 1499));
        return RoundTrip(700, i);
      }));
    }
    for (const auto& call : calls) EXPECT_OK(call->Result());
  }

  std::unique_ptr<FakeGpu> gpu_;
  std::unique_ptr<CudaBackend> backend_;
};

TEST_F(BusyCudaBackendTest, CallersShareOneSlotWithoutDeadlock) {
  Start({}, /*num_slots=*/1);
  ExpectConcurrentCallsWork(8);
}

TEST_F(BusyCudaBackendTest, CallersOverlapInAnyOrder) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Start({.shuffle_seed = seed}, /*num_slots=*/2);
    ExpectConcurrentCallsWork(4);
    backend_ = nullptr;
  }
}

TEST_F(BusyCudaBackendTest, PushesGoOnWhilePullsStandStill) {
  Start({}, /*num_slots=*/2);
  ASSERT_OK_AND_ASSIGN(Tensor device, ToDevice(*backend_, Counting(1000, 0)));
  gpu_->Hold(StreamUse::kToHost);
  Background pull([&] { return ToHost(*backend_, device); });
  gpu_->WaitForQueued(StreamUse::kToHost, 1);

  ASSERT_OK_AND_ASSIGN(Tensor other, ToDevice(*backend_, Counting(1000, 5)));
  EXPECT_OK(Double(other));
  EXPECT_FALSE(pull.IsDone());

  gpu_->Release(StreamUse::kToHost);
  ASSERT_OK_AND_ASSIGN(const Tensor host, pull.Result());
  EXPECT_EQ(host.elements<int64_t>().back(), 999);
}

TEST_F(BusyCudaBackendTest, CopiesGoOnWhileUpdatesStandStill) {
  Start({}, /*num_slots=*/2);
  ASSERT_OK_AND_ASSIGN(Tensor device, ToDevice(*backend_, Counting(10, 0)));
  gpu_->Hold(StreamUse::kCompute);
  Background update([&] { return Double(device); });
  gpu_->WaitForQueued(StreamUse::kCompute, 1);

  EXPECT_OK(RoundTrip(3000, 1));
  EXPECT_FALSE(update.IsDone());

  gpu_->Release(StreamUse::kCompute);
  EXPECT_OK(update.Result());
}

TEST_F(BusyCudaBackendTest, LateMemoryIsWaitedForAndNotUsedBefore) {
  Start({}, /*num_slots=*/2);
  gpu_->Hold(StreamUse::kMemory);
  Background call([&] { return RoundTrip(100, 1); });
  gpu_->WaitForQueued(StreamUse::kToDevice, 3);

  gpu_->Release(StreamUse::kMemory);

  EXPECT_OK(call.Result());
}

TEST_F(BusyCudaBackendTest, FailedDeviceEndsEveryCall) {
  Start({}, /*num_slots=*/1);
  gpu_->FailWork(20, absl::InternalError("gone"));
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 6; ++i) {
    calls.push_back(
        std::make_unique<Call>([this] { return RoundTrip(2000, 0); }));
  }

  for (const auto& call : calls) {
    EXPECT_THAT(call->Result(), StatusIs(absl::StatusCode::kUnavailable,
                                         HasSubstr("has failed: gone")));
  }
  EXPECT_THAT(backend_->Allocate(1, nullptr),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("gone")));
  EXPECT_THAT(backend_->Zero({}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(backend_->Apply({}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(BusyCudaBackendTest, OneFailedCopyIsForgottenByTheNext) {
  Start({}, /*num_slots=*/1);
  // Allocate, record, order; then the copy.
  gpu_->FailCall(3, absl::InternalError("injected"));

  EXPECT_THAT(RoundTrip(10, 0),
              StatusIs(absl::StatusCode::kInternal, "injected"));
  EXPECT_OK(RoundTrip(10, 0));
}

// The next call is at work while this one stands still.
TEST_F(BusyCudaBackendTest, CopyToHostDoesNotBlock) {
  Start({}, /*num_slots=*/1);
  ASSERT_OK_AND_ASSIGN(const Tensor device,
                       ToDevice(*backend_, Counting(9, 0)));
  std::vector<char> first(72);
  std::vector<char> second(72);
  gpu_->Hold(StreamUse::kToHost);

  const CopyToHost one(*backend_, {{device.data(), first.data(), 72}});
  const CopyToHost other(*backend_, {{device.data(), second.data(), 72}});
  EXPECT_FALSE(one.HasEnded());
  gpu_->Release(StreamUse::kToHost);

  EXPECT_OK(one.Wait());
  EXPECT_OK(other.Wait());
  EXPECT_EQ(first, second);
  EXPECT_EQ(first[8], 1);
}

// Both tensors fit the slot: it must wait behind nothing that is on its way.
TEST_F(BusyCudaBackendTest, SmallCopiesOfOneCallShareASlot) {
  Start({}, /*num_slots=*/1);
  ASSERT_OK_AND_ASSIGN(const Tensor one, ToDevice(*backend_, Counting(50, 0)));
  ASSERT_OK_AND_ASSIGN(const Tensor other,
                       ToDevice(*backend_, Counting(50, 9)));
  std::vector<int64_t> bytes(100);
  char* const to = reinterpret_cast<char*>(bytes.data());
  gpu_->Hold(StreamUse::kToHost);

  const CopyToHost copy(*backend_,
                        {{one.data(), to, 400}, {other.data(), to + 400, 400}});
  // The order, two copies, the record.
  gpu_->WaitForQueued(StreamUse::kToHost, 4);
  gpu_->Release(StreamUse::kToHost);

  EXPECT_OK(copy.Wait());
  EXPECT_EQ(bytes[49], 49);
  EXPECT_EQ(bytes[50], 9);
}

TEST_F(BusyCudaBackendTest, FailedDeviceEndsCopiesThatWaitForSlots) {
  Start({}, /*num_slots=*/1);
  ASSERT_OK_AND_ASSIGN(const Tensor device,
                       ToDevice(*backend_, Counting(9, 0)));
  std::vector<char> bytes(3 * 72);
  gpu_->Hold(StreamUse::kToHost);
  std::vector<CopyToHost> copies;
  for (int i = 0; i < 3; ++i) {
    copies.emplace_back(
        *backend_,
        std::vector<MemoryCopy>{{device.data(), bytes.data() + i * 72, 72}});
  }
  gpu_->WaitForQueued(StreamUse::kToHost, 1);

  gpu_->FailWork(0, absl::InternalError("gone"));
  gpu_->Release(StreamUse::kToHost);

  for (const CopyToHost& copy : copies) {
    EXPECT_THAT(copy.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                      HasSubstr("has failed: gone")));
  }
}

TEST_F(BusyCudaBackendTest, UsageShowsSlotsThatWaitForTheDevice) {
  Start({}, /*num_slots=*/2);
  ASSERT_OK_AND_ASSIGN(const Tensor device,
                       ToDevice(*backend_, Counting(9, 0)));
  gpu_->Hold(StreamUse::kToHost);
  Background pull([&] { return ToHost(*backend_, device); });
  gpu_->WaitForQueued(StreamUse::kToHost, 1);

  const DeviceUsage usage = backend_->usage();

  EXPECT_EQ(usage.num_staging_slots, 4);
  EXPECT_EQ(usage.num_staging_slots_in_use, 1);
  EXPECT_EQ(usage.quota_bytes, 256u << 20);
  gpu_->Release(StreamUse::kToHost);
  EXPECT_OK(pull.Result());
  EXPECT_EQ(backend_->usage().num_staging_slots_in_use, 0);
}

TEST_F(BusyCudaBackendTest, ProbeEndsWithTheWorkOfEveryStream) {
  Start({}, /*num_slots=*/1);
  for (const StreamUse use :
       {StreamUse::kToDevice, StreamUse::kCompute, StreamUse::kToHost}) {
    gpu_->Hold(use);
    const Answer<bool> through;

    backend_->Probe([through] { through.Set(true); });

    gpu_->WaitForQueued(use, 1);
    EXPECT_FALSE(through.HasArrived());
    gpu_->Release(use);
    EXPECT_TRUE(through.Wait());
  }
}

TEST_F(BusyCudaBackendTest, BufferOutlivesTheBackend) {
  Start({}, /*num_slots=*/1);
  const uint64_t before = backend_->usage().used_bytes;
  ASSERT_OK_AND_ASSIGN(RefPtr<Buffer> buffer, backend_->Allocate(10, nullptr));
  EXPECT_EQ(backend_->usage().used_bytes, before + 512);

  backend_ = nullptr;
  // All else is freed, when the device comes to it.
  while (gpu_->usage().device_bytes > 10) std::this_thread::yield();
  EXPECT_EQ(gpu_->usage().device_bytes, 10);

  buffer = nullptr;
  EXPECT_EQ(gpu_->usage(), FakeGpu::Usage());
}

}  // namespace
}  // namespace testing
}  // namespace tensorkv

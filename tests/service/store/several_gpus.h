// A store that keeps its tensors on two fake GPUs.

#ifndef TENSORKV_TESTS_SERVICE_STORE_SEVERAL_GPUS_H_
#define TENSORKV_TESTS_SERVICE_STORE_SEVERAL_GPUS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/service/store/gpu_store.h"

namespace tensorkv::testing {

class SeveralGpusTest : public GpuStoreTest {
 protected:
  SeveralGpusTest()
      : other_backend_(*CudaBackend::Create(
            other_gpu_.Open(), {.quota_bytes = 8 * kBudgetBytes})) {
    store_ = std::make_unique<MemoryTensorStore>(
        MemoryTensorStoreOptions{
            .budget_bytes = kBudgetBytes,
            .device_budget_bytes = {kBudgetBytes, kBudgetBytes}},
        std::vector<Backend*>{backend_.get(), other_backend_.get()}, &alarms_);
  }
  ~SeveralGpusTest() override { store_ = nullptr; }

  absl::Status InitAll(const std::vector<std::string>& keys, int64_t size) {
    InitRequest request;
    for (const std::string& key : keys) {
      request.entries.push_back({key, Filled(size, 1)});
    }
    return InitNow(*store_, std::move(request)).status();
  }
  std::vector<std::string> DevicesOf(const std::vector<std::string>& keys) {
    std::vector<std::string> devices;
    const StatReply reply = store_->Stat({.keys = keys}).value();
    for (const KeyStatus& key : reply.keys) devices.push_back(key.device);
    return devices;
  }
  MemoryUse UseOf(size_t device, absl::string_view name_space = "") {
    return store_->DescribeNamespace(name_space)->device_memory[device].memory;
  }
  absl::Status PushAll(const std::vector<std::string>& keys, int64_t size,
                       double value) {
    PushRequest request;
    for (const std::string& key : keys) {
      request.entries.push_back({key, false, Filled(size, value)});
    }
    const Answer<absl::StatusOr<PushReply>> answer;
    store_->Push(std::move(request), {}, CallbackOf(answer));
    return answer.Wait().status();
  }

  FakeGpu other_gpu_{{.ordinal = 1}};
  std::unique_ptr<CudaBackend> other_backend_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_STORE_SEVERAL_GPUS_H_

#include "kernels/cuda/cuda_backend.h"

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/answer.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/contracts/backend/backend_contract.h"
#include "tests/contracts/backend/odd_tensors.h"
#include "tests/contracts/backend/update_case.h"
#include "tests/testing/device_tensors.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace testing {
namespace {

using ::testing::HasSubstr;

// Few and small slots: tensors take many parts, and callers wait for slots.
CudaBackendOptions SmallSlots() {
  return {.quota_bytes = 256 << 20,
          .staging = {.num_slots = 3, .slot_bytes = 1000}};
}

// The GPUs outlive the backends that tests make.
struct OnFakeGpu {
  static absl::StatusOr<std::unique_ptr<Backend>> Create() {
    static auto* gpu = new FakeGpu();
    return CudaBackend::Create(gpu->Open(), {.quota_bytes = uint64_t{1} << 30});
  }
};
struct OnShuffledFakeGpu {
  static absl::StatusOr<std::unique_ptr<Backend>> Create() {
    static auto* gpu = new FakeGpu({.shuffle_seed = 1});
    return CudaBackend::Create(gpu->Open(), SmallSlots());
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(FakeGpu, BackendContractTest, OnFakeGpu);
INSTANTIATE_TYPED_TEST_SUITE_P(ShuffledFakeGpu, BackendContractTest,
                               OnShuffledFakeGpu);

// Several rules and sizes; few, as failures run them once per call.
std::vector<UpdateCase> FewCases() {
  std::vector<UpdateCase> cases;
  const std::vector<UpdateCase> all = SmallCases();
  for (size_t i = 0; i < all.size(); i += 397) cases.push_back(all[i]);
  return cases;
}

// What calls bring: so many bytes are a transfer of their own.
std::string PinnedBytes() {
  std::vector<float> elements(20'000);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = i;
  return {reinterpret_cast<const char*>(elements.data()),
          elements.size() * sizeof(float)};
}

// An upload and the update behind it, small copies that kernels make, and a
// transfer, all from and to memory as calls have it. Ends with PinnedBytes.
absl::StatusOr<std::string> RunPinned(Backend& backend) {
  constexpr size_t kPiece = 800;
  const std::string bytes = PinnedBytes();
  ASSIGN_OR_RETURN(const UpdateRule rule,
                   UpdateRule::Create({"accumulate", {}}));
  ASSIGN_OR_RETURN(const RefPtr<Buffer> host,
                   backend.AllocateStaging(bytes.size(), nullptr));
  ASSIGN_OR_RETURN(const RefPtr<Buffer> uploaded,
                   backend.Allocate(bytes.size(), nullptr));
  ASSIGN_OR_RETURN(const RefPtr<Buffer> value,
                   backend.Allocate(bytes.size(), nullptr));
  const auto num_elements = static_cast<int64_t>(bytes.size() / sizeof(float));
  const MutableTensorView view = {DType::kF32, num_elements,
                                  value->mutable_data()};
  const TensorView contribution = {DType::kF32, num_elements, uploaded->data()};
  TensorUpdate update;
  update.rule = &rule;
  update.stored = {DType::kF32, num_elements, value->data()};
  update.value = view;
  update.contributions = {&contribution, 1};
  std::memcpy(host->mutable_data(), bytes.data(), bytes.size());
  RETURN_IF_ERROR(backend.Run(
      {.uploads = {{host->data(), uploaded->mutable_data(), bytes.size()}},
       .zeros = {&view, 1},
       .updates = {&update, 1}}));
  Plan down;
  Plan up;
  for (size_t i = 0; i < bytes.size(); i += kPiece) {
    down.downloads.push_back(
        {value->data() + i, host->mutable_data() + i, kPiece});
    up.uploads.push_back(
        {host->data() + i, uploaded->mutable_data() + i, kPiece});
  }
  RETURN_IF_ERROR(backend.Run(std::move(down)));
  RETURN_IF_ERROR(backend.Run(std::move(up)));
  std::memset(host->mutable_data(), 0, bytes.size());
  RETURN_IF_ERROR(backend.Run(
      {.downloads = {{uploaded->data(), host->mutable_data(), bytes.size()}}}));
  return std::string(host->data(), bytes.size());
}

std::vector<std::string> Expected(const std::vector<UpdateCase>& cases) {
  CpuBackend cpu(1);
  std::vector<std::string> expected = *ResultBytes(cpu, cases);
  expected.push_back(PinnedBytes());
  return expected;
}

struct Batch {
  std::vector<DeviceUpdate> updates;

  static absl::StatusOr<Batch> Create(Backend& backend,
                                      const std::vector<UpdateCase>& cases) {
    Batch batch;
    for (const UpdateCase& update_case : cases) {
      ASSIGN_OR_RETURN(DeviceUpdate update,
                       DeviceUpdate::Create(backend, update_case));
      batch.updates.push_back(std::move(update));
    }
    return batch;
  }

  std::vector<TensorUpdate> views() {
    std::vector<TensorUpdate> views;
    for (DeviceUpdate& update : updates) views.push_back(update.view());
    return views;
  }

  absl::StatusOr<std::vector<std::string>> Bytes(Backend& backend) const {
    std::vector<std::string> bytes;
    for (const DeviceUpdate& update : updates) {
      ASSIGN_OR_RETURN(std::string result, update.ResultBytes(backend));
      bytes.push_back(std::move(result));
    }
    return bytes;
  }
};

// Everything that a backend does, once.
absl::StatusOr<std::vector<std::string>> RunAll(
    FakeGpu& gpu, const std::vector<UpdateCase>& cases) {
  ASSIGN_OR_RETURN(auto backend, CudaBackend::Create(gpu.Open(), SmallSlots()));
  ASSIGN_OR_RETURN(std::string pinned, RunPinned(*backend));
  ASSIGN_OR_RETURN(Batch batch, Batch::Create(*backend, cases));
  const absl::StatusOr<std::vector<std::string>> before = batch.Bytes(*backend);
  const absl::Status applied = backend->Apply(batch.views());
  absl::StatusOr<std::vector<std::string>> after = batch.Bytes(*backend);
  // A failed batch has changed nothing that anybody can read.
  if (!applied.ok() && before.ok() && after.ok()) {
    EXPECT_EQ(*after, *before);
  }
  RETURN_IF_ERROR(applied);
  if (after.ok()) after->push_back(std::move(pinned));
  return after;
}

TEST(CudaBackendTest, GivesTheBitsOfTheCpuBackend) {
  FakeGpu gpu;
  std::vector<UpdateCase> cases = SmallCases();
  for (const UpdateCase& large : LargeCases()) cases.push_back(large);
  for (const UpdateCase& special : SpecialCases()) cases.push_back(special);

  EXPECT_THAT(RunAll(gpu, cases), IsOkAndHolds(Expected(cases)));
}

// Kernels make them: one for each direction. Where no memory can be had for
// their tables, these travel with launches, each for some 20 of 5,000 copies.
TEST(CudaBackendTest, ManySmallCopiesAreAFewTransfers) {
  struct Case {
    size_t max_pinned_bytes;
    int64_t max_launches;
  };
  for (const auto& [max_pinned_bytes, max_launches] :
       {Case{1 << 20, 2}, Case{0, 265}}) {
    FakeGpu gpu;
    ASSERT_OK_AND_ASSIGN(
        const auto backend,
        CudaBackend::Create(
            gpu.Open(),
            {.quota_bytes = 64 << 20, .max_pinned_bytes = max_pinned_bytes}));

    EXPECT_OK(CheckSmallCopies(*backend));

    EXPECT_LT(gpu.num_copies(), 20);
    EXPECT_LE(gpu.num_launches(), max_launches);
  }
}

// The sum shows the order: (1e8 + 1) - 1e8 is 0 in f32.
TEST(CudaBackendTest, ContributionsAreReadWhereTheyLie) {
  FakeGpu gpu;
  ASSERT_OK_AND_ASSIGN(const auto backend,
                       CudaBackend::Create(gpu.Open(), SmallSlots()));
  const auto filled = [](double value) {
    return *Tensor::Filled(DType::kF32, {1000}, value);
  };
  ASSERT_OK_AND_ASSIGN(Tensor value, ToDevice(*backend, filled(5)));
  ASSERT_OK_AND_ASSIGN(const Tensor large, ToDevice(*backend, filled(1e8)));
  ASSERT_OK_AND_ASSIGN(const Tensor small, ToDevice(*backend, filled(1)));
  ASSERT_OK_AND_ASSIGN(const RefPtr<Buffer> pinned,
                       backend->AllocateStaging(4000, nullptr));
  std::memcpy(pinned->mutable_data(), filled(-1e8).data(), 4000);
  const TensorView contributions[] = {
      large.view(), small.view(), {DType::kF32, 1000, pinned->data()}};
  ASSERT_OK_AND_ASSIGN(const UpdateRule rule,
                       UpdateRule::Create({"accumulate", {}}));
  TensorUpdate update;
  update.rule = &rule;
  update.stored = value.view();
  update.value = value.mutable_view();
  update.contributions = contributions;

  EXPECT_TRUE(backend->CanRead(large.data(), 4000));
  ASSERT_OK(backend->Apply({&update, 1}));

  ASSERT_OK_AND_ASSIGN(const Tensor sum, ToHost(*backend, value));
  EXPECT_THAT(sum.elements<float>(), ::testing::Each(5));
}

TEST(CudaBackendTest, AnyOrderOfTheStreamsGivesTheSameBits) {
  const std::vector<UpdateCase> cases = FewCases();
  const std::vector<std::string> expected = Expected(cases);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    FakeGpu gpu({.shuffle_seed = seed});
    EXPECT_THAT(RunAll(gpu, cases), IsOkAndHolds(expected)) << "seed " << seed;
    EXPECT_EQ(gpu.usage(), FakeGpu::Usage()) << "seed " << seed;
    EXPECT_EQ(gpu.num_open_ranges(), 0) << "seed " << seed;
  }
}

// Some failures are no caller's loss: of freeing, for one.
TEST(CudaBackendTest, FailureOfAnyCallIsAClearErrorOrNone) {
  const std::vector<UpdateCase> cases = FewCases();
  const std::vector<std::string> expected = Expected(cases);
  int num_errors = 0;
  for (int call = 0;; ++call) {
    FakeGpu gpu;
    gpu.FailCall(call, absl::InternalError("injected"));
    const absl::StatusOr<std::vector<std::string>> bytes = RunAll(gpu, cases);
    EXPECT_EQ(gpu.usage(), FakeGpu::Usage()) << "call " << call;
    if (!gpu.has_injected()) break;
    num_errors += !bytes.ok();
    if (bytes.ok()) {
      EXPECT_EQ(*bytes, expected) << "call " << call;
    } else {
      EXPECT_THAT(bytes.status().message(), HasSubstr("injected"));
    }
  }
  EXPECT_GT(num_errors, 50);
}

TEST(CudaBackendTest, FailureOfAnyWorkFailsTheDevice) {
  const std::vector<UpdateCase> cases = FewCases();
  for (int work = 0;; ++work) {
    FakeGpu gpu;
    gpu.FailWork(work, absl::InternalError("illegal address"));
    const absl::StatusOr<std::vector<std::string>> bytes = RunAll(gpu, cases);
    EXPECT_EQ(gpu.usage(), FakeGpu::Usage()) << "work " << work;
    if (!gpu.has_injected()) {
      EXPECT_GT(work, 20);
      break;
    }
    EXPECT_THAT(bytes,
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("fake:0 has failed: illegal address")));
  }
}

// Small and large, close together and apart, in its own memory and in other.
TEST(CudaBackendCopiesTest, KeepTheirBytesWhereverTheyAreOnTheHost) {
  constexpr size_t kBytes = 1 << 20;
  FakeGpu gpu({.shuffle_seed = 3});
  auto backend = *CudaBackend::Create(gpu.Open(), {.quota_bytes = 64 << 20});
  const RefPtr<Buffer> host[] = {*backend->AllocateStaging(kBytes, nullptr),
                                 *backend->AllocateStaging(kBytes, nullptr),
                                 *HostBuffer::Allocate(kBytes)};
  const RefPtr<Buffer> device = *backend->Allocate(kBytes, nullptr);
  std::mt19937_64 random(11);
  for (size_t i = 0; i < kBytes; ++i) {
    host[0]->mutable_data()[i] = static_cast<char>(random());
  }
  for (int round = 0; round < 20; ++round) {
    const RefPtr<Buffer>& from = host[round % 4 == 3 ? 2 : 0];
    const RefPtr<Buffer>& to = host[1 + round % 2];
    std::vector<MemoryCopy> up;
    std::vector<MemoryCopy> down;
    const size_t most = round % 3 == 0 ? 300'000 : 3000;
    for (size_t at = 0; at + most < kBytes;) {
      const size_t bytes = random() % most;
      up.push_back({from->data() + at, device->mutable_data() + at, bytes});
      down.push_back({device->data() + at, to->mutable_data() + at, bytes});
      at = (at + bytes + 63) / 64 * 64 + (random() % 8 == 0 ? 640 : 0);
    }
    if (from != host[0])
      std::memcpy(from->mutable_data(), host[0]->data(), kBytes);

    ASSERT_OK(backend->CopyToDevice(up));
    const Answer<absl::Status> copied;
    backend->CopyToHost(down, [copied](absl::Status s) { copied.Set(s); });
    ASSERT_OK(copied.Wait());

    for (const MemoryCopy& copy : down) {
      const size_t at = copy.from - device->data();
      ASSERT_EQ(absl::string_view(copy.to, copy.size_bytes),
                absl::string_view(host[0]->data() + at, copy.size_bytes));
    }
  }
}

}  // namespace
}  // namespace testing
}  // namespace tensorkv

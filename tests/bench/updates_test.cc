#include "bench/updates.h"

#include <cstdint>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/testing/device_tensors.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::FakeGpu;
using ::testing::Each;
using ::testing::SizeIs;

// What one element's update reads and writes, counted by hand from the rule's
// formula in kernels/ops.
struct ByteCount {
  const char* name;
  RuleSpec rule;
  DType dtype;
  int num_contributions;
  int64_t bytes_per_element;

  friend std::ostream& operator<<(std::ostream& out, const ByteCount& count) {
    return out << count.name;
  }
};

const RuleSpec kMomentum = {"sgd", {{"momentum", 0.9}}};

class BytesMovedTest : public ::testing::TestWithParam<ByteCount> {};

TEST_P(BytesMovedTest, AreThoseOfTheFormula) {
  constexpr int64_t kElements = 1001;
  CpuBackend backend(1);
  ASSERT_OK_AND_ASSIGN(const UpdateRule rule,
                       UpdateRule::Create(GetParam().rule));
  ASSERT_OK_AND_ASSIGN(
      const KeyUpdate update,
      KeyUpdate::Create(backend, &rule,
                        {.dtype = GetParam().dtype,
                         .num_elements = kElements,
                         .num_contributions = GetParam().num_contributions}));

  EXPECT_EQ(BytesMoved(update.view()),
            kElements * GetParam().bytes_per_element);
}

TEST(KeyUpdateOfRowsTest, StatesOfRowsAndColumnsHaveAnElementForEach) {
  CpuBackend backend(1);
  ASSERT_OK_AND_ASSIGN(const UpdateRule rule,
                       UpdateRule::Create({"adafactor", {}}));
  ASSERT_OK_AND_ASSIGN(
      const KeyUpdate update,
      KeyUpdate::Create(backend, &rule, {.num_elements = 12, .num_rows = 3}));

  EXPECT_EQ(update.view().states[0].num_elements, 3);
  EXPECT_EQ(update.view().states[1].num_elements, 4);
  EXPECT_OK(backend.Apply({update.view()}));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BytesMovedTest,
    ::testing::Values(
        // w and G are read, w is written.
        ByteCount{"sgd_f32", {"sgd"}, DType::kF32, 1, 4 + 4 + 4},
        // 8 contributions and w are read, w is written.
        ByteCount{"sum_of_8_sgd_f32", {"sgd"}, DType::kF32, 8, 8 * 4 + 4 + 4},
        // w, G, m are read; w, m are written.
        ByteCount{"sgd_momentum_f32", kMomentum, DType::kF32, 1, 3 * 4 + 2 * 4},
        // w, G, m, v are read; w, m, v are written.
        ByteCount{"adam_f32", {"adam"}, DType::kF32, 1, 4 * 4 + 3 * 4},
        ByteCount{"adam_f64", {"adam"}, DType::kF64, 1, 4 * 8 + 3 * 8},
        // The f32 master, G in bf16, and m, v in f32 are read; the master, m, v
        // and w in bf16 are written.
        ByteCount{"adam_bf16_master",
                  {"adam"},
                  DType::kBF16,
                  1,
                  (4 + 2 + 4 + 4) + (4 + 4 + 4 + 2)},
        // G is read, w is written.
        ByteCount{"assign_f32", {"assign"}, DType::kF32, 1, 4 + 4},
        // w and G are read, w is written; without a master.
        ByteCount{
            "accumulate_bf16", {"accumulate"}, DType::kBF16, 1, 2 + 2 + 2}),
    [](const auto& info) { return std::string(info.param.name); });

// A GPU on which every byte that an update touches must be there.
class KeyUpdateTest : public ::testing::Test {
 protected:
  FakeGpu gpu_;
  const std::unique_ptr<CudaBackend> backend_ =
      CudaBackend::Create(gpu_.Open(), {.quota_bytes = 64 << 20}).value();
};

TEST_F(KeyUpdateTest, EveryElementIsAHalf) {
  // Beyond what is copied in one piece.
  constexpr int64_t kElements = (256 << 10) + 3;
  const UpdateRule rule;
  ASSERT_OK_AND_ASSIGN(
      const KeyUpdate update,
      KeyUpdate::Create(*backend_, &rule, {.num_elements = kElements}));
  ASSERT_OK_AND_ASSIGN(Tensor host, Tensor::Allocate(DType::kF32, {kElements}));

  const MemoryCopy copy = {static_cast<const char*>(update.view().value.data),
                           host.mutable_data(),
                           static_cast<size_t>(host.size_bytes())};
  ASSERT_OK(tensorkv::testing::CopyToHost(*backend_, {copy}).Wait());

  EXPECT_THAT(host.elements<float>(), Each(0.5f));
}

TEST_F(KeyUpdateTest, ViewsHaveAllThatTheRuleReads) {
  ASSERT_OK_AND_ASSIGN(const UpdateRule rule, UpdateRule::Create({"adam"}));
  std::vector<KeyUpdate> updates;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(KeyUpdate update,
                         KeyUpdate::Create(*backend_, &rule,
                                           {.dtype = DType::kBF16,
                                            .num_elements = 100,
                                            .num_contributions = 2}));
    updates.push_back(std::move(update));
  }

  const TensorUpdate view = updates.front().view();

  EXPECT_THAT(view.contributions, SizeIs(2));
  EXPECT_THAT(view.states, SizeIs(2));
  EXPECT_EQ(view.master.size_bytes(), 400);
  EXPECT_EQ(view.value.data, view.stored.data);
  EXPECT_OK(backend_->Apply({view, updates.back().view()}));
}

TEST_F(KeyUpdateTest, MemoryThatIsNotThereIsAnError) {
  const UpdateRule rule;

  EXPECT_THAT(
      KeyUpdate::Create(*backend_, &rule, {.num_elements = 32 << 20}),
      tensorkv::testing::StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace tensorkv::bench

#include "bench/gpu/copy_watch.h"

#include <memory>

#include "absl/time/time.h"
#include "bench/harness/clocks.h"
#include "tests/bench/gpu/gpu_suite.h"
#include "tests/testing/device_tensors.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench::gpu {
namespace {

class CopyWatchTest : public testing::GpuSuiteTest {
 protected:
  static Tensor Seven() { return Tensor::Filled(DType::kF32, {3}, 7).value(); }

  CopyWatch watch_{backend_.get()};
};

TEST_F(CopyWatchTest, KnowsWhenTheLastCopyBeganAndEnded) {
  const absl::Duration before = SteadyTime();
  ASSERT_OK(testing::ToDevice(watch_, Seven()));
  const CopyWatch::Times first = watch_.last_copy();
  ASSERT_OK(testing::ToDevice(watch_, Seven()));
  const CopyWatch::Times second = watch_.last_copy();

  EXPECT_LE(before, first.began_at);
  EXPECT_LE(first.began_at, first.ended_at);
  EXPECT_LE(first.ended_at, second.began_at);
  EXPECT_LE(second.ended_at, SteadyTime());
}

TEST_F(CopyWatchTest, PassesEverythingOn) {
  ASSERT_OK_AND_ASSIGN(Tensor tensor, testing::ToDevice(watch_, Seven()));
  const MutableTensorView view = tensor.mutable_view();

  ASSERT_OK_AND_ASSIGN(const Tensor there, testing::ToHost(watch_, tensor));
  EXPECT_EQ(there.elements<float>().back(), 7);
  ASSERT_OK(watch_.Zero({&view, 1}));
  ASSERT_OK_AND_ASSIGN(const Tensor zero, testing::ToHost(watch_, tensor));
  EXPECT_EQ(zero.elements<float>().back(), 0);
  EXPECT_EQ(watch_.name(), backend_->name());
  EXPECT_FALSE(watch_.is_host());
}

}  // namespace
}  // namespace tensorkv::bench::gpu

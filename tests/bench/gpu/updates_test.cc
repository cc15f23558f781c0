#include "bench/gpu/updates.h"

#include "gmock/gmock.h"
#include "tests/bench/gpu/gpu_suite.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench::gpu {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::SizeIs;

class UpdatesTest : public testing::GpuSuiteTest {
 protected:
  // Of three f32 keys of 100 elements with adam.
  std::shared_ptr<const Updates> MakeThree() {
    return Updates::Create(backend_.get(), {"adam"}, {.num_elements = 100}, 3)
        .value();
  }
};

TEST_F(UpdatesTest, MoveTheBytesOfAllKeys) {
  EXPECT_EQ(MakeThree()->bytes_moved(), 3 * 100 * 28);
}

TEST_F(UpdatesTest, ABatchIsOneLaunch) {
  const std::unique_ptr<Load> load = Updates::InOneBatch(MakeThree());
  std::vector<absl::Duration> latencies;
  const int64_t launches_before = gpu_.num_launches();

  ASSERT_OK(load->Run(2, &latencies));

  EXPECT_EQ(gpu_.num_launches() - launches_before, 2);
  EXPECT_THAT(latencies, SizeIs(2));
  EXPECT_EQ(load->shape().bytes_per_call, 3 * 100 * 28);
}

TEST_F(UpdatesTest, OneByOneIsALaunchForEachKey) {
  const std::unique_ptr<Load> load = Updates::OneByOne(MakeThree());
  std::vector<absl::Duration> latencies;
  const int64_t launches_before = gpu_.num_launches();

  ASSERT_OK(load->Run(2, &latencies));

  EXPECT_EQ(gpu_.num_launches() - launches_before, 6);
  EXPECT_THAT(latencies, SizeIs(2));
  EXPECT_EQ(load->shape().bytes_per_call, 3 * 100 * 28);
}

TEST_F(UpdatesTest, AFailureOfTheDeviceEndsTheRun) {
  const std::unique_ptr<Load> load = Updates::OneByOne(MakeThree());
  std::vector<absl::Duration> latencies;
  gpu_.FailWork(0, absl::InternalError("broken"));

  EXPECT_THAT(load->Run(1, &latencies),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(UpdatesTest, RuleThatThereIsNotIsAnError) {
  EXPECT_THAT(
      Updates::Create(backend_.get(), {"adamx"}, {.num_elements = 1}, 1),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tensorkv::bench::gpu

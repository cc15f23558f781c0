#include "kernels/cuda/pinned_slots.h"

#include <cstdlib>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/background.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using testing::Background;
using testing::FakeGpu;
using testing::StatusIs;

class PinnedSlotsTest : public ::testing::Test {
 protected:
  FakeGpu gpu_;
  std::unique_ptr<Device> device_ = gpu_.Open();
  std::unique_ptr<PinnedSlots> slots_ =
      *PinnedSlots::Create(device_.get(), 2, 64);
};

TEST_F(PinnedSlotsTest, SlotsAreApartAndComeBack) {
  PinnedSlots::Slot one = slots_->Acquire();
  const PinnedSlots::Slot other = slots_->Acquire();
  EXPECT_GE(std::abs(one.get() - other.get()), 64);
  EXPECT_EQ(slots_->TryAcquire(), nullptr);

  one = nullptr;

  EXPECT_EQ(slots_->num_free(), 1);
  EXPECT_NE(slots_->TryAcquire(), nullptr);
}

TEST_F(PinnedSlotsTest, AcquireWaitsForASlot) {
  PinnedSlots::Slot one = slots_->Acquire();
  const PinnedSlots::Slot other = slots_->Acquire();
  char* const data = one.get();
  Background waiting([&] { return slots_->Acquire().get(); });

  one = nullptr;

  EXPECT_EQ(waiting.Result(), data);
}

TEST_F(PinnedSlotsTest, DeviceThatPinsNothingIsAnError) {
  gpu_.FailCall(0, absl::ResourceExhaustedError("none"));

  EXPECT_THAT(PinnedSlots::Create(device_.get(), 2, 64),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace tensorkv

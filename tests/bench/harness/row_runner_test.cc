#include "bench/harness/row_runner.h"

#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/harness/fake_load.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::FakeLoad;
using ::tensorkv::testing::FakeMachine;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RowRunnerTest : public ::testing::Test {
 protected:
  Entrant Works(const std::string& name) {
    return {name,
            std::make_unique<FakeLoad>(name, LoadShape{.bytes_per_call = 1000},
                                       absl::Microseconds(1), &machine_)};
  }

  // `references` in turns with `ours`.
  void Measure(Entrant ours, Entrant first, Entrant second) {
    std::vector<Entrant> references;
    references.push_back(std::move(first));
    references.push_back(std::move(second));
    runner_.Measure({.name = "tcp/push/1MiB"}, std::move(ours),
                    std::move(references), &section_);
  }

  FakeMachine machine_;
  std::ostringstream progress_;
  RowRunner runner_{
      {.measure = {.repetitions = 1, .trial_time = absl::Nanoseconds(1)},
       .only = "push"},
      &progress_};
  Section section_;
};

TEST_F(RowRunnerTest, WantsRowsWithTheText) {
  EXPECT_TRUE(runner_.Wants("tcp/push/1MiB"));
  EXPECT_FALSE(runner_.Wants("tcp/pull/1MiB"));
}

TEST_F(RowRunnerTest, NoRowBeginsWhenTheTimeIsOver) {
  const RowRunner runner({.time_limit = absl::Seconds(95)}, &progress_,
                         {.steady_time = [this] { return machine_.now; }});
  machine_.now += absl::Seconds(95);
  EXPECT_TRUE(runner.MayBegin("tcp/push/1MiB", &section_));
  EXPECT_THAT(section_.left_out, IsEmpty());

  machine_.now += absl::Seconds(1);
  EXPECT_FALSE(runner.MayBegin("tcp/push/1MiB", &section_));
  EXPECT_THAT(section_.left_out,
              ElementsAre("tcp/push/1MiB: it would begin after 1m35s"));
}

TEST_F(RowRunnerTest, ARowHasOursAndItsReferences) {
  Measure(Works("ours"), Works("raw"), Works("naive"));

  ASSERT_THAT(section_.rows, SizeIs(1));
  EXPECT_GT(section_.rows[0].ours.gigabytes_per_second, 0);
  EXPECT_NE(section_.rows[0].Find("raw"), nullptr);
  EXPECT_NE(section_.rows[0].Find("naive"), nullptr);
  EXPECT_THAT(section_.left_out, IsEmpty());
  EXPECT_EQ(progress_.str(), "tcp/push/1MiB, 1 in flight\n");
}

TEST_F(RowRunnerTest, AReferenceThatCannotIsLeftOutWithTheReason) {
  Measure(Works("ours"), {"redis", absl::OutOfRangeError("at most 512 MiB")},
          Works("naive"));

  ASSERT_THAT(section_.rows, SizeIs(1));
  EXPECT_EQ(section_.rows[0].Find("redis"), nullptr);
  EXPECT_NE(section_.rows[0].Find("naive"), nullptr);
  EXPECT_THAT(
      section_.left_out,
      ElementsAre("tcp/push/1MiB, 1 in flight, redis: at most 512 MiB"));
}

TEST_F(RowRunnerTest, WithoutOursThereIsNoRow) {
  Measure({"ours", absl::ResourceExhaustedError("too large")}, Works("raw"),
          Works("naive"));

  EXPECT_THAT(section_.rows, IsEmpty());
  EXPECT_THAT(machine_.runs, IsEmpty());
  EXPECT_THAT(section_.left_out,
              ElementsAre("tcp/push/1MiB, 1 in flight, ours: too large"));
}

TEST_F(RowRunnerTest, WhoeverFailsOnTheWayIsLeftOut) {
  auto breaks = std::make_unique<FakeLoad>("raw", LoadShape{},
                                           absl::Microseconds(1), &machine_);
  breaks->Break(absl::UnavailableError("gone"));
  Measure(Works("ours"), {"raw", std::move(breaks)}, Works("naive"));

  EXPECT_THAT(section_.rows, SizeIs(1));
  EXPECT_THAT(section_.left_out,
              ElementsAre("tcp/push/1MiB, 1 in flight, raw: gone"));
}

}  // namespace
}  // namespace tensorkv::bench

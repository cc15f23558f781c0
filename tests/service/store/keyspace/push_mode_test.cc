#include "service/store/keyspace/push_mode.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/store/keyspace/contributions.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace push_mode_test {

using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// A mode and its group.
struct ModeOf {
  explicit ModeOf(const NamespaceConfig& config)
      : group({.min_workers = config.num_workers,
               .max_workers = config.num_workers}),
        mode(*PushMode::Create(config, &group)) {}
  PushMode* operator->() { return mode.get(); }

  WorkerGroup group;
  std::unique_ptr<PushMode> mode;
};

ModeOf Bounded(uint32_t num_workers, uint32_t staleness) {
  return ModeOf({.mode = Mode::kBounded,
                 .num_workers = num_workers,
                 .staleness = staleness});
}

absl::Status Created(const NamespaceConfig& config) {
  const WorkerGroup group({});
  return PushMode::Create(config, &group).status();
}

PushRequest PushBy(uint32_t rank, Step step) {
  PushRequest request;
  request.worker = Worker{rank, 0};
  request.step = step;
  return request;
}

TEST(PushModeTest, GroupRoundsAndQuorumMustMakeSense) {
  EXPECT_THAT(
      Created({.mode = Mode::kSync, .num_workers = 2, .max_open_rounds = 65}),
      StatusIs(kInvalid, HasSubstr("max_open_rounds")));
  EXPECT_THAT(
      Created({.mode = Mode::kSync, .num_workers = 3, .max_workers = 2}),
      StatusIs(kInvalid, HasSubstr("max_workers")));
  EXPECT_THAT(
      Created({.mode = Mode::kBounded, .num_workers = 3, .max_workers = 5000}),
      StatusIs(kInvalid, HasSubstr("max_workers")));
  EXPECT_THAT(Created({.mode = Mode::kSync, .num_workers = 3, .quorum = 4}),
              StatusIs(kInvalid, HasSubstr("quorum")));
  EXPECT_THAT(Created({.mode = Mode::kSync,
                       .num_workers = 3,
                       .quorum = 2,
                       .quorum_grace = absl::Hours(2)}),
              StatusIs(kInvalid, HasSubstr("quorum_grace")));
}

TEST(PushModeTest, BoundedRepeatIsAnsweredWithTheVersion) {
  ModeOf mode = Bounded(2, 1);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  key->version = 9;
  PushRequest request = PushBy(1, 5);
  request.call_id = CallId{"client", 1};
  mode->Record(*key, request, {});

  ASSERT_OK_AND_ASSIGN(const auto repeat, mode->CheckKey(*key, request));

  ASSERT_TRUE(repeat);
  EXPECT_TRUE(repeat->repeated);
  EXPECT_EQ(repeat->version, 9u);
  request.call_id->client_id = "other";
  EXPECT_THAT(mode->CheckKey(*key, request),
              HasReason(Reason::kContributionExists));
}

TEST(PushModeTest, WhoOpensARoundReservesItsValue) {
  ModeOf mode = ModeOf({.mode = Mode::kSync, .num_workers = 2});
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});

  EXPECT_TRUE(mode->NeedsReservation(*key, PushBy(0, 3)));
  mode->Record(*key, PushBy(0, 3), {});
  mode->Add(*key, PushBy(0, 3), testing::Of(1), {});

  EXPECT_FALSE(mode->NeedsReservation(*key, PushBy(1, 3)));
}

// Numbers of ranks that a key makes place for double: placing all takes time in
// proportion to their number.
TEST(PushModeTest, BoundedKeyGrowsByDoubling) {
  ModeOf mode = Bounded(4096, 1);
  const RefPtr<StoredKey> key = StoredKey::Create("w", DType::kF32, {1});
  int num_growths = 0;

  for (uint32_t rank = 0; rank < 4096; ++rank) {
    if (mode->BytesToRecord(*key, PushBy(rank, 1)) > 0) ++num_growths;
    mode->Record(*key, PushBy(rank, 1), {});
  }

  EXPECT_EQ(num_growths, 13);
}

}  // namespace push_mode_test
}  // namespace tensorkv

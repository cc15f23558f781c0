#include "service/store/keyspace/push/push_mode.h"

#include <memory>

#include "gtest/gtest.h"
#include "tests/service/store/keyspace/rounds/contributions.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace push_mode_test {

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

PushRequest PushBy(uint32_t rank, Step step) {
  PushRequest request;
  request.worker = Worker{rank, 0};
  request.step = step;
  return request;
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

#include "client/cli/namespace_changes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

NamespaceStatus WithWorkers(std::vector<WorkerStatus> workers) {
  NamespaceStatus status;
  status.name = "n";
  status.uid = 7;
  status.num_keys = 2;
  status.rules = {{"*.bias", {.name = "sgd"}}, {"", {.name = "assign"}}};
  status.workers = std::move(workers);
  return status;
}

TEST(NamespaceChangesTest, StepsAndUpdatesAreNone) {
  NamespaceStatus after = WithWorkers({{"w0", {0, 5}, true, /*step=*/9}});
  after.updates_applied = 100;
  after.revision = 8;

  EXPECT_THAT(
      ChangesBetween(WithWorkers({{"w0", {0, 5}, true, /*step=*/3}}), after),
      IsEmpty());
}

TEST(NamespaceChangesTest, WorkersComeGoAndComeBack) {
  const NamespaceStatus before = WithWorkers({{"w0", {0, 5}, true},
                                              {"w1", {1, 6}, true},
                                              {"w2", {2, 7}, false},
                                              {"w3", {3, 8}, true}});
  const NamespaceStatus after =
      WithWorkers({{"w0", {0, 5}, false},
                   {"w1", {1, 9}, true},
                   {"w2", {2, 10}, true},
                   {.name = "w3", .worker = {3, 8}, .has_left = true}});

  EXPECT_THAT(ChangesBetween(before, after),
              ElementsAre(NamespaceChange{"worker lost", "rank 0 (\"w0\")"},
                          NamespaceChange{"worker left", "rank 3 (\"w3\")"},
                          NamespaceChange{"worker joined", "rank 1 (\"w1\")"},
                          NamespaceChange{"worker joined", "rank 2 (\"w2\")"}));
}

TEST(NamespaceChangesTest, RulesAndKeysAndCounts) {
  const NamespaceStatus before = WithWorkers({});
  NamespaceStatus after = before;
  after.num_keys = 3;
  after.rules = {{"*.w", {.name = "adam"}}, {"", {.name = "sgd"}}};
  after.multipliers = {{"*.w", {.learning_rate = 2}}};
  after.rounds_failed = 4;
  after.contributions_late = 1;

  EXPECT_THAT(ChangesBetween(before, after),
              ElementsAre(NamespaceChange{"keys", "2 -> 3"},
                          NamespaceChange{"rule unset", "\"*.bias\""},
                          NamespaceChange{"rule set", "\"*\": sgd"},
                          NamespaceChange{"rule set", "\"*.w\": adam"},
                          NamespaceChange{"multipliers set",
                                          "\"*.w\": lr_mult 2, wd_mult 1"},
                          NamespaceChange{"rounds failed", "4 more, 4 in all"},
                          NamespaceChange{"pushes late", "1 more, 1 in all"}));
}

TEST(NamespaceChangesTest, OfAnotherNamespaceNothingElseIsSaid) {
  const NamespaceStatus before = WithWorkers({});
  NamespaceStatus after = before;
  after.uid = 8;
  after.num_keys = 0;

  EXPECT_THAT(ChangesBetween(before, after),
              ElementsAre(NamespaceChange{
                  "replaced", "by another namespace of this name"}));
}

}  // namespace
}  // namespace tensorkv

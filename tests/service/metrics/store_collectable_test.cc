#include "service/metrics/store_collectable.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/metrics/exposition.h"

namespace tensorkv {
namespace {

using testing::Exposition;
using ::testing::HasSubstr;
using ::testing::Not;

class FixedSummaries final : public NamespaceSummaries {
 public:
  std::vector<NamespaceSummary> Summaries() const override { return summaries; }
  absl::StatusOr<std::vector<OpenRound>> OpenRounds(
      absl::string_view) const override {
    return std::vector<OpenRound>();
  }

  std::vector<NamespaceSummary> summaries;
};

class StoreCollectableTest : public ::testing::Test {
 protected:
  std::string Scrape(std::vector<NamespaceSummary> statuses) {
    namespaces_.summaries = std::move(statuses);
    return Exposition(collectable_);
  }

  FixedSummaries namespaces_;
  StoreCollectable collectable_{&namespaces_};
};

TEST_F(StoreCollectableTest, ShowsEveryNumberOfANamespace) {
  const std::string text = Scrape({{.name = "n",
                                    .budget_bytes = 77,
                                    .num_keys = 1,
                                    .memory = {2, 3, 4},
                                    .updates_applied = 5,
                                    .rounds_open = 6,
                                    .rounds_closed = 7,
                                    .rounds_failed = 8,
                                    .calls_waiting = 9}});

  for (const char* line :
       {"\ntensorkv_keys{namespace=\"n\"} 1\n",
        "{namespace=\"n\",use=\"values\"} 2\n",
        "{namespace=\"n\",use=\"state\"} 3\n",
        "tensorkv_memory_bytes{namespace=\"n\",use=\"contributions\"} 4\n",
        "tensorkv_namespace_budget_bytes{namespace=\"n\"} 77",
        "tensorkv_updates_total{namespace=\"n\"} 5\n",
        "tensorkv_rounds_open{namespace=\"n\"} 6\n",
        "tensorkv_rounds_closed_total{namespace=\"n\"} 7\n",
        "tensorkv_rounds_failed_total{namespace=\"n\"} 8\n",
        "tensorkv_calls_waiting{namespace=\"n\"} 9\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(StoreCollectableTest, ShowsWhatIsOnEachGpu) {
  const std::string text =
      Scrape({{.name = "n",
               .device_memory = {{"cuda:0", {1, 2, 3}}, {"cuda:2", {4}}}}});

  EXPECT_THAT(text, HasSubstr("tensorkv_device_memory_bytes{namespace=\"n\","
                              "use=\"contributions\",device=\"cuda:0\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("{namespace=\"n\",use=\"values\","
                              "device=\"cuda:2\"} 4\n"));
}

TEST_F(StoreCollectableTest, ShowsWorkersAndWaits) {
  NamespaceSummary status = {.name = "n",
                             .lease_expirations = 3,
                             .contributions_late = 4,
                             .contributions_duplicate = 5,
                             .contributions_fenced = 6,
                             .slowest_lag = 7};
  status.live_workers = 1;
  status.guard_counts = {{.not_finite = 11}, {.rank = 3, .too_large = 12}};
  status.waits = {{.reason = WaitReason::kRound,
                   .calls_waiting = 8,
                   .calls_ended = 9,
                   .waited = absl::Milliseconds(1500)},
                  {.reason = WaitReason::kAttempt, .calls_waiting = 10},
                  {.reason = WaitReason::kBarrier}};

  const std::string text = Scrape({status});

  for (const char* line :
       {"tensorkv_workers_live{namespace=\"n\"} 1\n",
        "tensorkv_lease_expirations_total{namespace=\"n\"} 3\n",
        "{namespace=\"n\",reason=\"late\"} 4\n",
        "{namespace=\"n\",reason=\"duplicate\"} 5\n",
        "tensorkv_contributions_refused_total{namespace=\"n\",reason="
        "\"fenced\"} 6\n",
        "tensorkv_contributions_guarded_total{namespace=\"n\",rank=\"none\","
        "reason=\"not_finite\"} 11\n",
        "{namespace=\"n\",rank=\"3\",reason=\"too_large\"} 12\n",
        "tensorkv_slowest_worker_lag_steps{namespace=\"n\"} 7\n",
        "tensorkv_waiting{namespace=\"n\",reason=\"round\"} 8\n",
        "tensorkv_waiting{namespace=\"n\",reason=\"attempt\"} 10\n",
        "tensorkv_waited_seconds_count{namespace=\"n\",reason=\"round\"} 9\n",
        "tensorkv_waited_seconds_sum{namespace=\"n\",reason=\"round\"} "
        "1.5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("barrier")));
}

TEST_F(StoreCollectableTest, ShowsWhatPullsOfChangesWereSent) {
  const std::string text = Scrape({{.name = "n",
                                    .changes = {.unchanged = 1,
                                                .deltas = 2,
                                                .delta_bytes = 3,
                                                .wholes = 4,
                                                .whole_bytes = 5}}});

  for (const char* line :
       {"tensorkv_changes_sent_total{namespace=\"n\",as=\"unchanged\"} 1\n",
        "tensorkv_changes_sent_total{namespace=\"n\",as=\"delta\"} 2\n",
        "tensorkv_changes_sent_bytes_total{namespace=\"n\",as=\"delta\"} 3\n",
        "tensorkv_changes_sent_total{namespace=\"n\",as=\"whole\"} 4\n",
        "tensorkv_changes_sent_bytes_total{namespace=\"n\",as=\"whole\"} "
        "5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(StoreCollectableTest, ShowsEveryNamespace) {
  const std::string text =
      Scrape({{.name = "a", .num_keys = 1}, {.name = "b", .num_keys = 2}});

  EXPECT_THAT(text, HasSubstr("tensorkv_keys{namespace=\"a\"} 1\n"
                              "tensorkv_keys{namespace=\"b\"} 2\n"));
}

TEST_F(StoreCollectableTest, CountersAndGaugesAreTyped) {
  const std::string text = Scrape({{.name = "n"}});

  EXPECT_THAT(text, HasSubstr("# TYPE tensorkv_keys gauge\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE tensorkv_updates_total counter\n"));
}

TEST_F(StoreCollectableTest, NamesAreEscaped) {
  EXPECT_THAT(Scrape({{.name = "a\"b\\c"}}),
              HasSubstr("tensorkv_keys{namespace=\"a\\\"b\\\\c\"} 0\n"));
}

}  // namespace
}  // namespace tensorkv

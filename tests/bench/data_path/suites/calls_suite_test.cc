#include "bench/data_path/suites/calls_suite.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv::bench {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

// "tcp/push/1MiB x16".
std::vector<std::string> NamesOf(Transport transport,
                                 const std::vector<Workload>& workloads) {
  std::vector<std::string> names;
  for (const Workload& workload : workloads) {
    names.push_back(
        absl::StrCat(RowName(transport, workload), " x", workload.in_flight));
  }
  return names;
}

std::vector<std::string> TcpNames(const Plan& plan) {
  return NamesOf(Transport::kTcp, TensorWorkloads(plan, Transport::kTcp));
}

TEST(CallsSuiteTest, ARowIsNamedAfterTransportVerbAndSize) {
  EXPECT_EQ(RowName(Transport::kUnix,
                    {.verb = Verb::kPull, .bytes_per_key = 64 << 20}),
            "unix/pull/64MiB");
  EXPECT_EQ(RowName(Transport::kTcp, {.verb = Verb::kPushPull,
                                      .bytes_per_key = 256,
                                      .num_keys = 10'000}),
            "tcp/pushpull/10000x256B");
}

TEST(CallsSuiteTest, TheFullPlanHasEverySizeVerbAndWindow) {
  const std::vector<std::string> names = TcpNames({});

  for (const char* size :
       {"256B", "4KiB", "64KiB", "1MiB", "16MiB", "64MiB", "1GiB"}) {
    for (const char* verb : {"push", "pull", "pushpull"}) {
      for (const int in_flight : {1, 16}) {
        EXPECT_THAT(names, Contains(absl::StrCat("tcp/", verb, "/", size, " x",
                                                 in_flight)));
      }
    }
  }
}

TEST(CallsSuiteTest, TheQuickPlanHasTheRowsWithGoals) {
  EXPECT_THAT(
      TcpNames({.is_quick = true}),
      IsSupersetOf(
          {"tcp/push/4KiB x1", "tcp/pull/4KiB x1", "tcp/pushpull/4KiB x1",
           "tcp/push/1MiB x1", "tcp/pull/1MiB x1", "tcp/push/16MiB x1",
           "tcp/pull/16MiB x1", "tcp/push/64MiB x1", "tcp/pull/64MiB x1"}));
  EXPECT_THAT(NamesOf(Transport::kTcp, LastWorkloads({.is_quick = true})),
              IsSupersetOf({"tcp/push/1GiB x1", "tcp/pull/1GiB x1"}));
}

TEST(CallsSuiteTest, TheFullPlanHasTheLargestAmongTheOthers) {
  EXPECT_THAT(LastWorkloads({}), IsEmpty());
}

TEST(CallsSuiteTest, BothPlansHaveTheBatchWithAGoal) {
  for (const bool is_quick : {false, true}) {
    EXPECT_THAT(
        NamesOf(Transport::kTcp, BatchWorkloads({.is_quick = is_quick})),
        IsSupersetOf({"tcp/push/100x4KiB x1", "tcp/pull/100x4KiB x1",
                      "tcp/pushpull/10000x256B x1"}));
  }
}

TEST(CallsSuiteTest, NoRowIsThereTwice) {
  for (const bool is_quick : {false, true}) {
    const std::vector<std::string> names = TcpNames({.is_quick = is_quick});
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(),
              names.size());
  }
}

}  // namespace
}  // namespace tensorkv::bench

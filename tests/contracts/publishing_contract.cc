// Snapshots that calls take with their change, and what they give readers.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/snapshot_references.h"
#include "tests/contracts/snapshot_calls.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;

TEST_P(SnapshotContractTest, ACallPublishesItsWholeEffect) {
  InitRequest init = {.entries = {{"a", Full({2}, 1)}, {"b", Full({2}, 1)}},
                      .publish_as = PublicationOf("s")};
  ASSERT_OK_AND_ASSIGN(const InitReply made, store_.Call(init));
  ASSERT_TRUE(made.published.has_value());
  EXPECT_EQ(made.published->number, 1);
  PushRequest push = {.entries = {{.key = "a", .tensor = Full({2}, 2)},
                                  {.key = "b", .tensor = Full({2}, 2)}},
                      .publish_as = PublicationOf("s")};
  push.publish_as->set_number(7);
  ASSERT_OK_AND_ASSIGN(const PushReply pushed, store_.Call(push));
  ASSERT_TRUE(pushed.published.has_value());
  EXPECT_EQ(pushed.published->number, 7);
  ASSERT_OK(store_.Push("b", Full({2}, 3)));

  for (const std::string key : {"a", "b"}) {
    EXPECT_THAT(PullAt(store_, key, SnapshotOf("s", 1)),
                IsOkAndHolds(HasTensor(IsFilledWith(1))));
    EXPECT_THAT(PullAt(store_, key, SnapshotOf("s", 7)),
                IsOkAndHolds(HasTensor(IsFilledWith(2))));
  }
}

TEST_P(SnapshotContractTest, ACallThatCannotPublishHasNoEffect) {
  ASSERT_OK(store_.Init("a", Full({2}, 1)));
  ASSERT_EQ(Create(store_, "s"), 1);
  PublishAs passed = PublicationOf("s");
  passed.set_number(1);
  PublishAs nameless;
  PublishAs conflicting = PublicationOf("s");
  conflicting.set_expected_latest(0);
  for (const PublishAs& refused : {passed, nameless, conflicting}) {
    EXPECT_FALSE(
        store_
            .Call(PushRequest{.entries = {{.key = "a", .tensor = Full({2}, 2)}},
                              .publish_as = refused})
            .ok());
    EXPECT_FALSE(store_
                     .Call(InitRequest{.entries = {{"b", Full({2}, 2)}},
                                       .publish_as = refused})
                     .ok());
  }
  EXPECT_THAT(store_.Pull("a"), IsOkAndHolds(HasVersion(1)));
  EXPECT_THAT(store_.Pull("b"), StatusIs(StatusCode::kNotFound));
  // One that is refused for another reason publishes nothing.
  EXPECT_FALSE(
      store_
          .Call(PushRequest{.entries = {{.key = "no", .tensor = Full({2}, 2)}},
                            .publish_as = PublicationOf("s")})
          .ok());
  EXPECT_THAT(NumbersOf(store_, "s"), ElementsAre(1));

  PushPullRequest push_pull;
  push_pull.entries = {{.key = "a", .tensor = Full({2}, 2)}};
  push_pull.publish_as = PublicationOf("s");
  EXPECT_THAT(store_.Call(push_pull).status(),
              StatusIs(StatusCode::kInvalidArgument));
  const Caller sync = NewSyncNamespace(1);
  ASSERT_OK(sync.Init("a", Full({2}, 1)));
  EXPECT_THAT(
      sync.Call(PushRequest{.worker = Worker{.rank = 0},
                            .step = 1,
                            .entries = {{.key = "a", .tensor = Full({2}, 2)}},
                            .publish_as = PublicationOf("s")})
          .status(),
      StatusIs(StatusCode::kInvalidArgument));
}

// --- Values that are converted -----------------------------------------------

// It is 1 as bf16.
constexpr double kAboveOne = 1.001;

CreateSnapshotRequest ConvertedTo(v1::DType dtype) {
  CreateSnapshotRequest request = CreateRequestOf("s");
  request.set_dtype(dtype);
  return request;
}

TEST_P(SnapshotContractTest, GivesFloatsAsItWasToldTo) {
  ASSERT_OK(store_.Init("f32", Full({4, 3}, kAboveOne)));
  ASSERT_OK(store_.Init("f8", Full({3}, 2, DType::kF8E4M3FN)));
  ASSERT_OK(store_.Init("i64", Full({3}, 3, DType::kI64)));
  ASSERT_OK(store_.Init("bf16", Full({4, 3}, 1, DType::kBF16)));
  ASSERT_OK(store_.Call(ConvertedTo(v1::DTYPE_BF16)));
  ASSERT_OK(store_.Push("f32", Full({4, 3}, 5)));

  const std::map<std::string, DType> dtypes = {{"f32", DType::kBF16},
                                               {"f8", DType::kF8E4M3FN},
                                               {"i64", DType::kI64},
                                               {"bf16", DType::kBF16}};
  const SnapshotReference at = LatestSnapshot("s");
  for (const auto& [key, dtype] : dtypes) {
    ASSERT_OK_AND_ASSIGN(const Value value, PullAt(store_, key, at));
    EXPECT_EQ(value.tensor.dtype(), dtype) << key;
  }
  EXPECT_THAT(PullAt(store_, "f32", at),
              IsOkAndHolds(HasTensor(IsFilledWith(1))));
  ListRequest list;
  *list.mutable_at() = at;
  ASSERT_OK_AND_ASSIGN(const ListReply page, store_.Call(list));
  for (const KeyStatus& key : page.keys()) {
    EXPECT_EQ(static_cast<DType>(key.dtype()), dtypes.at(key.key()));
  }
  StatRequest stat;
  stat.add_keys("f32");
  stat.add_keys("bf16");
  stat.set_compute_digests(true);
  *stat.mutable_at() = at;
  ASSERT_OK_AND_ASSIGN(const StatReply told, store_.Call(stat));
  EXPECT_EQ(told.keys(0).digest(), told.keys(1).digest());
  EXPECT_EQ(told.keys(0).value_bytes(), 4 * 3 * 2);
  ASSERT_OK_AND_ASSIGN(const DescribeSnapshotReply described,
                       Describe(store_, at));
  EXPECT_EQ(described.snapshot().dtype(), v1::DTYPE_BF16);
}

TEST_P(SnapshotContractTest, GivesRowsAsItWasToldTo) {
  ASSERT_OK(store_.Init("t", Full({4, 3}, kAboveOne)));
  ASSERT_OK(store_.Call(ConvertedTo(v1::DTYPE_BF16)));
  PullRequest rows = {.at = LatestSnapshot("s")};
  rows.entries.push_back(
      {.key = "t", .rows = *RowIds::Create(Vector({3, 0}, DType::kI64))});

  ASSERT_OK_AND_ASSIGN(const PullReply read,
                       store_.Call(PullRowsRequest{rows}));

  EXPECT_EQ(read.values[0].tensor.dtype(), DType::kBF16);
  EXPECT_EQ(read.values[0].tensor.num_elements(), 6);
  EXPECT_THAT(read.values[0], HasTensor(IsFilledWith(1)));
}

TEST_P(SnapshotContractTest, WhoPullsMayNameTheDTypeThatItGives) {
  ASSERT_OK(store_.Init("w", Full({3}, kAboveOne)));
  InitRequest init = {.entries = {{"v", Full({3}, kAboveOne)}},
                      .publish_as = PublicationOf("s")};
  init.publish_as->set_dtype(v1::DTYPE_F16);
  ASSERT_OK(store_.Call(init));

  PullRequest pull = PullOf({"v", "w"}, LatestSnapshot("s"));
  pull.dtype = DType::kF16;
  EXPECT_OK(store_.Call(pull));
  for (const DType other : {DType::kF32, DType::kBF16, DType::kF8E5M2}) {
    pull.dtype = other;
    EXPECT_THAT(store_.Call(pull), StatusIs(StatusCode::kInvalidArgument));
  }
  for (const int wrong : {int{v1::DTYPE_I32}, 99}) {
    EXPECT_THAT(store_.Call(ConvertedTo(static_cast<v1::DType>(wrong))),
                StatusIs(StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace tensorkv::testing

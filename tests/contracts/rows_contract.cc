// Rows of keys, in every mode: what a store makes of them is what it makes of
// tensors, row by row.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "tests/contracts/random_rows.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace rows_contract {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

// SGD with momentum of some rows, in double.
class MomentumModel {
 public:
  explicit MomentumModel(const Tensor& table) : w_(ElementsOf(table)) {}

  void Push(const RandomRows& rows) {
    std::vector<std::vector<double>> sums(kRows);
    for (int i = 0; i < rows.size(); ++i) {
      std::vector<double>& sum = sums[rows.id(i)];
      sum.resize(kWidth);
      for (int k = 0; k < kWidth; ++k) sum[k] += rows.Row(i)[k];
    }
    for (int row = 0; row < kRows; ++row) {
      for (size_t k = 0; k < sums[row].size(); ++k) {
        double& w = w_[row * kWidth + k];
        double& m = m_[row * kWidth + k];
        m = 0.9 * m - 0.1 * (sums[row][k] + 0.01 * w);
        w += m;
      }
    }
  }

  const std::vector<double>& values() const { return w_; }

 private:
  std::vector<double> w_;
  std::vector<double> m_ = std::vector<double>(kRows * kWidth);
};

TEST_P(RowsContractTest, OnlyNamedRowsAreUpdated) {
  std::mt19937 random(1);
  ASSERT_OK(store_.SetRule(kMomentum));
  ASSERT_OK(store_.Init("w", Table()));
  MomentumModel model(Table());
  for (int push = 0; push < 60; ++push) {
    const RandomRows rows(random);
    ASSERT_OK(store_.PushRows({rows.Entry("w")}));
    model.Push(rows);
  }
  ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
  const std::vector<double> elements = ElementsOf(value.tensor);
  for (size_t i = 0; i < elements.size(); ++i) {
    EXPECT_NEAR(elements[i], model.values()[i],
                2e-5 * (1 + std::abs(model.values()[i])))
        << "row " << i / kWidth;
  }
}

// Beside as many keys of one row, bit by bit.
TEST_P(RowsContractTest, RowIsUpdatedAsATensorOfItsOwn) {
  ASSERT_OK(store_.SetRule("rmsprop(centered=1, weight_decay=0.1)"));
  for (const DType dtype :
       {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    std::mt19937 random(2);
    const Tensor table = Table(dtype);
    const std::vector<double> numbers = ElementsOf(table);
    std::vector<InitEntry> entries = {{"w", table}};
    for (int row = 0; row < kRows; ++row) {
      const auto first = numbers.begin() + row * kWidth;
      entries.push_back(
          {absl::StrCat("row", row), Vector({first, first + kWidth}, dtype)});
    }
    ASSERT_OK(store_.InitMany(entries, OnExisting::kReplace));
    for (int push = 0; push < 20; ++push) {
      const RandomRows rows(random);
      ASSERT_OK(store_.PushRows({rows.Entry("w")}));
      std::vector<PushEntry> pushes;
      for (int i = 0; i < rows.size(); ++i) {
        pushes.push_back({.key = absl::StrCat("row", rows.id(i)),
                          .tensor = Vector(rows.Row(i))});
      }
      ASSERT_OK(store_.PushMany(pushes));
    }
    const std::string bytes = BytesOf(store_.Pull("w")->tensor);
    std::string expected;
    for (int row = 0; row < kRows; ++row) {
      expected += BytesOf(store_.Pull(absl::StrCat("row", row))->tensor);
    }
    EXPECT_TRUE(bytes == expected) << NameOf(dtype);
  }
}

TEST_P(RowsContractTest, AllRowsAreUpdatedAsByATensor) {
  for (const char* rule : {"adam(weight_decay=0.1)", "assign", "accumulate"}) {
    std::mt19937 random(3);
    ASSERT_OK(store_.SetRule(rule));
    ASSERT_OK(store_.InitMany({{"rows", Table()}, {"dense", Table()}},
                              OnExisting::kReplace));
    for (int push = 0; push < 10; ++push) {
      const RandomRows rows(random);
      ASSERT_OK(store_.PushRows({rows.Entry("rows", true)}));
      ASSERT_OK(store_.PushMany(rows.Dense("dense")));
    }
    ASSERT_OK_AND_ASSIGN(const PullReply reply,
                         store_.PullMany({{"rows"}, {"dense"}}));
    EXPECT_EQ(BytesOf(reply.values[0].tensor), BytesOf(reply.values[1].tensor))
        << rule;
  }
}

// What a rule draws for an element does not depend on what is updated with it.
TEST_P(RowsContractTest, NoiseOfAnElementIsThatOfTheKey) {
  ASSERT_OK(store_.SetRule("sgld(learning_rate=0.1)"));
  ASSERT_OK(store_.Init("w", Full({8, 3}, 0)));
  ASSERT_OK(store_.Push("w", Full({8, 3}, 0)));
  const std::vector<double> all = ElementsOf(store_.Pull("w")->tensor);
  ASSERT_OK(store_.Init("w", Full({8, 3}, 0), OnExisting::kReplace));
  ASSERT_OK(store_.PushRows(
      {{.key = "w", .tensor = Full({2, 3}, 0), .rows = IdsOf({6, 2})}}));
  std::vector<double> expected(8 * 3);
  for (const int row : {2, 6}) {
    std::copy_n(all.begin() + row * 3, 3, expected.begin() + row * 3);
  }
  EXPECT_NE(expected[2 * 3], 0);
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(HasElements(expected))));
}

TEST_P(RowsContractTest, KeysOfEveryRankAboveZeroHaveRows) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.InitMany({{"n", Full({4}, 1, DType::kU16)},
                             {"t", Full({3, 2, 2}, 1)},
                             {"none", Full({0, 7}, 0)},
                             {"narrow", Full({5, 0}, 0)}}));
  ASSERT_OK(store_.PushRows(
      {{.key = "n",
        .tensor = Vector({5, 6, 65535}, DType::kU16),
        .rows = IdsOf({3, 3, 0})},
       {.key = "t", .tensor = Full({1, 2, 2}, 2), .rows = IdsOf({1})},
       {.key = "none", .tensor = Full({0, 7}, 0), .rows = IdsOf({})},
       {.key = "narrow", .tensor = Full({2, 0}, 0), .rows = IdsOf({4, 4})}}));
  EXPECT_THAT(store_.Pull("n"),
              IsOkAndHolds(HasTensor(HasElements({0, 1, 1, 12}))));
  ASSERT_OK_AND_ASSIGN(const PullReply reply,
                       store_.PullRows({{"t", 0, IdsOf({2, 1})},
                                        {"none", 0, IdsOf({})},
                                        {"narrow", 0, IdsOf({1, 1, 1})}}));
  EXPECT_THAT(reply.values[0].tensor, HasElements({1, 1, 1, 1, 3, 3, 3, 3}));
  EXPECT_EQ(reply.values[1].tensor.Description(), "f32[0,7]");
  EXPECT_EQ(reply.values[2].tensor.Description(), "f32[3,0]");
}

TEST_P(RowsContractTest, PullRowsKeepsTheOrderOfTheIds) {
  ASSERT_OK(store_.Init("w", TensorOf({3, 2}, {1, 2, 3, 4, 5, 6})));

  ASSERT_OK_AND_ASSIGN(
      const PullReply reply,
      store_.PullRows({{"w", 0, IdsOf({2, 0, 0, 1, 2}, DType::kI32)},
                       {"w", 0, IdsOf({0, 1, 2})},
                       {"w", 0, IdsOf({})}}));

  EXPECT_THAT(reply.values[0].tensor,
              HasElements({5, 6, 1, 2, 1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(reply.values[1].tensor, HasElements({1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(reply.values[2].tensor, HasElements({}));
}

TEST_P(RowsContractTest, RowsOfOneKeyMayBeInManyEntries) {
  ASSERT_OK(store_.InitMany({{"a", TensorOf({3, 1}, {1, 2, 3})},
                             {"b", TensorOf({3, 1}, {4, 5, 6})}}));
  ASSERT_OK(store_.PushRows(
      {{.key = "b", .tensor = Full({1, 1}, 7), .rows = IdsOf({2})}}));
  std::vector<PullEntry> entries;
  for (int i = 0; i < 100; ++i) {
    entries.push_back({i % 2 == 0 ? "a" : "b", 0, IdsOf({i % 3})});
  }

  ASSERT_OK_AND_ASSIGN(const PullReply reply, store_.PullRows(entries));

  const std::vector<double> rows = {1, 5, 3, 4, 2, 7};  // of 0 to 5
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(reply.values[i], AllOf(HasVersion(1 + i % 2),
                                       HasTensor(HasElements({rows[i % 6]}))));
  }
}

TEST_P(RowsContractTest, PullRowsWaitsAsPullDoes) {
  Background waiting([&] {
    return store_.PullRows({{"w", 2, IdsOf({1})}}, /*wait_for_keys=*/true);
  });
  AwaitWaitingCalls(store_, 1);
  ASSERT_OK(store_.Init("w", Full({3, 2}, 1)));
  ASSERT_OK(store_.PushRows(
      {{.key = "w", .tensor = Full({1, 2}, 7), .rows = IdsOf({1})}}));
  ASSERT_OK_AND_ASSIGN(const PullReply reply, waiting.Result());
  EXPECT_THAT(reply.values[0],
              AllOf(HasVersion(2), HasTensor(IsFilledWith(7))));

  ExpectWaitNames("version 3", store_, [](const Caller& caller) {
    return caller.PullRows({{"w", 3, IdsOf({1})}}).status();
  });
  EXPECT_THAT(store_.PullRows({{"none", 0, IdsOf({1})}}),
              StatusIs(StatusCode::kNotFound, HasSubstr("\"none\"")));
}

// Whoever has pulled the value keeps it as it was.
TEST_P(RowsContractTest, PulledValueStaysWhileRowsChange) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Full({100, 16}, 1)));
  ASSERT_OK_AND_ASSIGN(const Value before, store_.Pull("w"));
  for (const bool update_all_rows : {false, true}) {
    ASSERT_OK(store_.PushRows({{.key = "w",
                                .tensor = Full({1, 16}, 1),
                                .rows = IdsOf({50}),
                                .update_all_rows = update_all_rows}}));
  }
  EXPECT_TRUE(IsFilled(before.tensor, 1));
  std::vector<double> expected(100 * 16, 1);
  std::fill_n(expected.begin() + 50 * 16, 16, 3);
  EXPECT_THAT(
      store_.Pull("w"),
      IsOkAndHolds(AllOf(HasVersion(3), HasTensor(HasElements(expected)))));
}

TEST_P(RowsContractTest, EmptyListsChangeNothing) {
  ASSERT_OK(store_.SetRule(kMomentum));
  ASSERT_OK(store_.Init("w", Full({3, 2}, 1)));
  const PushEntry none = {
      .key = "w", .tensor = Full({0, 2}, 0), .rows = IdsOf({})};

  ASSERT_OK_AND_ASSIGN(const PushReply reply,
                       store_.PushRows({none, {.key = "w", .skip = true}}));

  EXPECT_EQ(reply.results[0].version, 1u);
  EXPECT_THAT(store_.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(1), HasTensor(IsFilledWith(1)))));
}

TEST_P(RowsContractTest, CallWithAnIdIsMadeOnce) {
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Full({2, 1}, 0)));
  PushRowsRequest request;
  request.call_id = CallId{"client", 1};
  request.entries = {
      {.key = "w", .tensor = Full({1, 1}, 1), .rows = IdsOf({1})}};
  for (int attempt = 0; attempt < 3; ++attempt) {
    ASSERT_OK_AND_ASSIGN(const PushReply reply, connection().Call(request));
    EXPECT_EQ(reply.results[0].version, 2u);
  }
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasTensor(HasElements({0, 1}))));
  request.entries[0].rows = IdsOf({0});
  EXPECT_EQ(ReasonOf(connection().Call(request).status()),
            Reason::kCallIdReused);
}

TEST_P(RowsContractTest, BadRowsAreRefusedAndChangeNothing) {
  ASSERT_OK(store_.InitMany({{"w", Full({3, 2}, 1)}, {"scalar", Full({}, 1)}}));
  const Tensor good = Full({1, 2}, 5);
  struct Case {
    std::string key;
    RefPtr<const RowIds> rows;
    Tensor tensor;
    std::string message;
    StatusCode code = StatusCode::kInvalidArgument;
  };
  const std::vector<Case> cases = {
      {"w", IdsOf({3}), good, "key \"w\": expected ids of its 3 rows"},
      {"w", IdsOf({1, 1 << 30}), Full({2, 2}, 5), "got 1073741824"},
      {"w", IdsOf({-1}, DType::kI32), good, "from 0 on, got -1"},
      {"w", IdsOf({1}), Full({2, 2}, 5), "expected f32[1,2], got f32[2,2]"},
      {"w", IdsOf({1, 1}), good, "expected f32[2,2], got f32[1,2]"},
      {"w", IdsOf({1}), Full({1, 3}, 5), "expected f32[1,2], got f32[1,3]"},
      {"w", IdsOf({1}), Full({1, 2}, 5, DType::kI32), "got i32[1,2]"},
      {"scalar", IdsOf({0}), Full({1}, 5), "expected a tensor that has rows"},
      {"none", IdsOf({0}), good, "\"none\"", StatusCode::kNotFound}};
  const PushEntry fine = {.key = "w", .tensor = good, .rows = IdsOf({0})};
  for (const Case& each : cases) {
    const PushEntry bad = {
        .key = each.key, .tensor = each.tensor, .rows = each.rows};
    EXPECT_THAT(store_.PushRows({fine, bad, fine}),
                StatusIs(each.code, HasSubstr(each.message)));
  }
  EXPECT_THAT(store_.PullRows({{"scalar", 0, IdsOf({})}}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(store_.Pull("w"),
              IsOkAndHolds(AllOf(HasVersion(1), HasTensor(IsFilledWith(1)))));
}

TEST_P(RowsContractTest, IdOutOfRangeIsNamedByTheReason) {
  ASSERT_OK(store_.Init("w", Full({3, 2}, 1)));

  const absl::Status status =
      store_.PullRows({{"w", 0, IdsOf({0})}, {"w", 0, IdsOf({0, 7})}}).status();

  EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(ReasonOf(status), Reason::kRowOutOfRange);
  const std::optional<ErrorInfo> info = ErrorInfoOf(status);
  EXPECT_EQ(info->metadata.at("key"), "w");
  EXPECT_EQ(info->metadata.at("row"), "7");
  EXPECT_EQ(info->metadata.at("limit"), "3");
}

TEST_P(RowsContractTest, CopiesOfRowsTakeRoomInTheBudget) {
  const Caller small = NewNamespace("small", {.budget_bytes = 64 << 10});
  ASSERT_OK(small.Init("w", Full({2, 1024}, 1)));
  const absl::Status status =
      small.PullRows({{"w", 0, IdsOf(Ids(100, 1))}}).status();
  EXPECT_EQ(ReasonOf(status), Reason::kOverBudget) << status;
  EXPECT_OK(small.PullRows({{"w", 0, IdsOf({1, 0})}}));
  EXPECT_TRUE(Eventually([&] {
    return small.Describe()->memory().values() == 2 * 1024 * sizeof(float);
  }));
}

// A table may take most of a budget.
TEST_P(RowsContractTest, RowsNeedNoRoomForAnotherTable) {
  const Caller small = NewNamespace(
      "small", {.rule = {.name = "accumulate"}, .budget_bytes = 1 << 20});
  ASSERT_OK(small.Init("w", Full({180, 1024}, 1)));
  const PushEntry entry = {
      .key = "w", .tensor = Full({2, 1024}, 1), .rows = IdsOf({7, 9})};
  EXPECT_OK(small.PushRows({entry}));
  EXPECT_THAT(small.Push("w", Full({180, 1024}, 1)),
              StatusIs(StatusCode::kResourceExhausted));
}

// Rows that nobody names are updated by zeros, as many as a row has elements.
TEST_P(RowsContractTest, ZerosForOtherRowsTakeRoomInTheBudget) {
  const Caller small = NewNamespace(
      "small", {.rule = {.name = "accumulate"}, .budget_bytes = 1 << 20});
  ASSERT_OK(small.InitMany(
      {{"wide", Full({1, 150 << 10}, 1)}, {"narrow", Full({100, 2}, 1)}}));
  const auto push = [&](const std::string& key, int64_t width) {
    return small
        .PushRows({{.key = key,
                    .tensor = Full({0, width}, 0),
                    .rows = IdsOf({}),
                    .update_all_rows = true}})
        .status();
  };

  const absl::Status status = push("wide", 150 << 10);

  EXPECT_EQ(ReasonOf(status), Reason::kOverBudget) << status;
  EXPECT_OK(push("narrow", 2));
  EXPECT_THAT(small.Pull("wide"), IsOkAndHolds(HasVersion(1)));
  EXPECT_TRUE(Eventually(
      [&] { return small.Describe()->memory().contributions() == 0; }));
}

TEST_P(RowsContractTest, ReadersSeeWholeUpdates) {
  constexpr int kPushes = 100;
  ASSERT_OK(store_.SetRule("accumulate"));
  ASSERT_OK(store_.Init("w", Full({64, 32}, 0)));
  RunConcurrently(4, [&](int thread) {
    for (int i = 0; i < kPushes; ++i) {
      if (thread < 2) {
        ASSERT_OK(store_.PushRows({{.key = "w",
                                    .tensor = Full({3, 32}, 1),
                                    .rows = IdsOf({60, 1, 33})}}));
      } else if (thread == 2) {
        ASSERT_OK_AND_ASSIGN(const PullReply reply,
                             store_.PullRows({{"w", 0, IdsOf({33, 60, 1})}}));
        const Value& value = reply.values[0];
        EXPECT_TRUE(IsFilled(value.tensor, value.version - 1.0));
      } else {
        ASSERT_OK_AND_ASSIGN(const Value value, store_.Pull("w"));
        const std::vector<double> elements = ElementsOf(value.tensor);
        EXPECT_EQ(elements[32], value.version - 1);
        EXPECT_EQ(elements[60 * 32 + 31], value.version - 1);
      }
    }
  });
  EXPECT_THAT(store_.Pull("w"), IsOkAndHolds(HasVersion(2 * kPushes + 1)));
}

}  // namespace rows_contract
}  // namespace tensorkv::testing

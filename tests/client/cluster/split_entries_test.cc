#include "client/cluster/split_entries.h"

#include <string>
#include <vector>

#include "client/cluster/split_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::ElementsOf;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::TensorOf;
using ::tensorkv::testing::Vector;
using ::testing::ElementsAre;

constexpr uint64_t kMiB = 1 << 20;

ClusterPlacement PlacementOf(size_t num_partitions, uint64_t split_bytes) {
  ClusterPlacement placement;
  placement.owners.resize(num_partitions);
  placement.split_bytes = split_bytes;
  return placement;
}

// [5,2] in three slices, of 2, 2 and 1 rows.
SplitLayout FiveRows() { return {"w", DType::kF32, {5, 2}, 3}; }
Tensor FiveRowsOfElements() {
  return TensorOf({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST(SplitLayoutTest, TakesAsManySlicesAsAreWorthIt) {
  const auto num_slices = [](size_t num_partitions, Shape shape) {
    const auto layout =
        PlanSplit(PlacementOf(num_partitions, kMiB), "w", DType::kU8, shape);
    return layout ? layout->num_slices : 1;
  };
  EXPECT_EQ(num_slices(64, {1 << 20}), 1u);
  EXPECT_EQ(num_slices(64, {(1 << 20) + 1}), 4u);
  EXPECT_EQ(num_slices(64, {1 << 26}), 64u);
  EXPECT_EQ(num_slices(64, {3, 1 << 25}), 3u);
  EXPECT_EQ(num_slices(64, {1, 1 << 25}), 1u);
  EXPECT_EQ(num_slices(1, {1 << 26}), 1u);
  EXPECT_FALSE(PlanSplit(PlacementOf(64, 0), "w", DType::kU8, {1 << 26}));
  EXPECT_FALSE(PlanSplit(PlacementOf(64, kMiB), std::string(1010, 'w'),
                         DType::kU8, {1 << 26}));
}

TEST(SplitLayoutTest, FindsTheSliceOfEachRow) {
  for (const int64_t num_rows : {3, 5, 6, 64}) {
    const SplitLayout layout = {"w", DType::kF32, {num_rows}, 3};
    for (int64_t row = 0; row < num_rows; ++row) {
      const uint32_t slice = layout.SliceOfRow(row);
      EXPECT_LE(layout.FirstRow(slice), row);
      EXPECT_LT(row, layout.FirstRow(slice + 1));
    }
  }
}

TEST(SplitEntriesTest, PushIsViewsOfItsTensor) {
  const SplitLayout layout = FiveRows();
  const PushEntry entry = {.key = "w", .tensor = FiveRowsOfElements()};
  SplitEntry split;
  std::vector<PushEntry> slices;

  ASSERT_THAT(AppendSlices(entry, layout, split, slices), IsOk());

  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[1].key, layout.NameOf(1));
  EXPECT_THAT(ElementsOf(slices[1].tensor), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(ElementsOf(slices[2].tensor), ElementsAre(8, 9));
  EXPECT_EQ(slices[1].tensor.data(), entry.tensor.data() + 4 * sizeof(float));
}

TEST(SplitEntriesTest, StatesAreCutByRowsUnlessAllRowsShareThem) {
  const SplitLayout layout = FiveRows();
  const SetStateEntry entries[] = {
      {"w", "momentum", FiveRowsOfElements()},
      {"w", "history", Vector({0, 1, 2, 3, 4})},
      {"w", "update_count", TensorOf({}, {6}, DType::kU64)}};
  SplitEntry split;
  std::vector<SetStateEntry> slices;
  std::vector<GetStateEntry> gets;

  for (const SetStateEntry& entry : entries) {
    ASSERT_THAT(AppendSlices(entry, layout, split, slices), IsOk());
  }
  ASSERT_THAT(AppendSlices(GetStateEntry{"w", "momentum"}, layout, split, gets),
              IsOk());

  ASSERT_EQ(slices.size(), 9u);
  EXPECT_EQ(slices[1].key, layout.NameOf(1));
  EXPECT_EQ(slices[1].state, "momentum");
  EXPECT_THAT(ElementsOf(slices[1].tensor), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(ElementsOf(slices[5].tensor), ElementsAre(4));
  EXPECT_EQ(slices[8].tensor.Description(), "u64[]");
  ASSERT_EQ(gets.size(), 3u);
  EXPECT_EQ(gets[2].key, layout.NameOf(2));
  EXPECT_EQ(gets[2].state, "momentum");
  EXPECT_THAT(AppendSlices(SetStateEntry{"w", "momentum", Vector({1})}, layout,
                           split, slices),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SplitEntriesTest, RowsGoToTheirSlicesAndNoneToOthers) {
  const SplitLayout layout = FiveRows();
  const PushEntry entry = {
      .key = "w",
      .tensor = TensorOf({3, 2}, {1, 2, 3, 4, 5, 6}),
      .rows = RowIds::Create(Vector({4, 0, 4}, DType::kI64)).value()};
  SplitEntry split;
  std::vector<PushEntry> slices;

  ASSERT_THAT(AppendSlices(entry, layout, split, slices), IsOk());

  EXPECT_THAT(ElementsOf(slices[0].tensor), ElementsAre(3, 4));
  EXPECT_EQ((*slices[0].rows)[0], 0);
  EXPECT_EQ(slices[1].rows->size(), 0);
  EXPECT_THAT(ElementsOf(slices[2].tensor), ElementsAre(1, 2, 5, 6));
  EXPECT_EQ((*slices[2].rows)[1], 0);
}

TEST(SplitEntriesTest, RefusesWhatDoesNotFit) {
  const SplitLayout layout = FiveRows();
  SplitEntry split;
  std::vector<PushEntry> pushes;
  std::vector<PullEntry> pulls;

  EXPECT_THAT(AppendSlices(PushEntry{.key = "w", .tensor = Vector({1})}, layout,
                           split, pushes),
              StatusIs(absl::StatusCode::kInvalidArgument));
  for (const double row : {-1.0, 5.0}) {
    EXPECT_THAT(
        AppendSlices(
            PullEntry{
                .key = "w",
                .rows = RowIds::Create(Vector({row}, DType::kI32)).value()},
            layout, split, pulls),
        HasReason(Reason::kRowOutOfRange));
  }
}

TEST(SplitEntriesTest, AnswersOfOtherRowsAreErrors) {
  const SplitLayout layout = FiveRows();
  const PullEntry entry = {
      .key = "w", .rows = RowIds::Create(Vector({4, 0}, DType::kI64)).value()};
  SplitEntry split = {.layout = &layout};
  std::vector<PullEntry> slices;
  ASSERT_THAT(AppendSlices(entry, layout, split, slices), IsOk());
  ASSERT_EQ(slices.size(), 2);

  const Tensor one = TensorOf({1, 2}, {0, 1});
  for (const Tensor& other :
       {TensorOf({0, 2}, {}), TensorOf({2, 2}, {0, 1, 2, 3})}) {
    EXPECT_THAT(JoinAnswers(split, {Value{1, one}, Value{1, other}}, Tensor()),
                StatusIs(absl::StatusCode::kInternal));
  }
  EXPECT_THAT(JoinAnswers(split, {Value{1, one}, Value{1, one}}, Tensor()),
              IsOk());
}

TEST(SplitEntriesTest, ValuesThatAreInTheirPlacesStay) {
  const SplitLayout layout = FiveRows();
  const Tensor elements = FiveRowsOfElements();
  Tensor whole = Tensor::Allocate(DType::kF32, {5, 2}).value();
  const std::vector<Destination> places = SliceDestinations(layout, whole);
  std::vector<Value> answers;
  for (uint32_t i = 0; i < 3; ++i) {
    answers.push_back({.version = 7 - i,
                       .tensor = RowsOf(elements, layout.FirstRow(i),
                                        layout.FirstRow(i + 1))});
  }
  // The second has come in place, the others elsewhere.
  answers[1].tensor = RowsOf(whole, 2, 4);
  for (float& element : whole.mutable_elements<float>()) element = 55;

  const auto joined =
      JoinAnswers({.layout = &layout, .begin = 0, .end = 3}, answers, whole);

  ASSERT_THAT(joined, IsOk());
  EXPECT_EQ(joined->version, 5u);
  EXPECT_EQ(joined->tensor.data(), whole.data());
  EXPECT_EQ(places[1].memory.data(), whole.data() + 4 * sizeof(float));
  EXPECT_THAT(ElementsOf(joined->tensor),
              ElementsAre(0, 1, 2, 3, 55, 55, 55, 55, 8, 9));
}

RefPtr<const ValueChange> ChangeOf(std::string token, bool unchanged,
                                   bool is_delta) {
  auto change = MakeRefCounted<ValueChange>();
  change->token = std::move(token);
  change->unchanged = unchanged;
  if (is_delta) change->delta = Delta{.digest = 7};
  return change;
}

TEST(SplitEntriesTest, TokenOfAKeyHasThoseOfItsSlices) {
  const SplitLayout layout = FiveRows();
  SplitEntry split = {.layout = &layout};
  std::vector<Value> answers(3);
  const std::string tokens[] = {"ab", "", std::string(64, '\2')};
  for (size_t i = 0; i < 3; ++i) {
    answers[i].change = ChangeOf(tokens[i], /*unchanged=*/true, false);
  }
  const auto joined = JoinAnswers(split, answers, FiveRowsOfElements());
  ASSERT_THAT(joined, IsOk());
  EXPECT_TRUE(joined->change->unchanged);
  EXPECT_FALSE(joined->tensor.has_data());

  const std::string& token = joined->change->token;
  for (const auto& [held, is_right] :
       {std::pair(token, true), std::pair(token.substr(1), false),
        std::pair(token + "x", false), std::pair(std::string(34, '\1'), false),
        std::pair(std::string(), false)}) {
    std::vector<PullEntry> slices;
    const PullEntry entry = {.key = "w", .held = held};
    ASSERT_THAT(AppendSlices(entry, layout, split, slices), IsOk());
    ASSERT_EQ(slices.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(slices[i].held, is_right ? tokens[i] : "");
    }
  }
}

TEST(SplitEntriesTest, WhatHasChangedIsToldBySlices) {
  const SplitLayout layout = FiveRows();
  const SplitEntry split = {.layout = &layout};
  const std::vector<Value> answers = {
      {5, TensorOf({2, 2}, {9, 8, 7, 6}), 1, ChangeOf("a", false, false)},
      {3, Tensor(), 2, ChangeOf("b", true, false)},
      {4, Vector({1, 2, 3}, DType::kU8), 3, ChangeOf("c", false, true)}};

  const auto value = JoinAnswers(split, answers, FiveRowsOfElements());

  ASSERT_THAT(value, IsOk());
  EXPECT_FALSE(value->is_whole());
  EXPECT_EQ(value->version, 3u);
  EXPECT_THAT(ElementsOf(value->tensor),
              ElementsAre(9, 8, 7, 6, 4, 5, 6, 7, 8, 9));
  const std::vector<SliceChange>& slices = value->change->slices;
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[0].size_bytes, 16u);
  EXPECT_FALSE(slices[0].unchanged || slices[0].delta);
  EXPECT_TRUE(slices[1].unchanged);
  ASSERT_TRUE(slices[2].delta);
  EXPECT_EQ(slices[2].size_bytes, 8u);
  EXPECT_EQ(slices[2].delta->digest, 7u);
  EXPECT_THAT(ElementsOf(slices[2].tensor), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace tensorkv

#include "client/cli/metadata_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

KeyStatus Weights() {
  KeyStatus status = {.key = "fc1.w", .dtype = DType::kF32, .shape = {2, 3}};
  status.version = 12;
  status.value_bytes = 24;
  return status;
}

TEST(TableTextTest, ColumnsAreAlignedAndLinesEndWithoutBlanks) {
  EXPECT_EQ(TableText({{"a", "b"}, {"long", ""}, {"x", "yy"}}),
            "a     b\nlong\nx     yy\n");
}

TEST(TableTextTest, CellsAreNoCommandsForTheTerminal) {
  EXPECT_EQ(TableText({{"\x1b[2Ja", "\u009b2J"}}), " [2Ja   2J\n");
}

TEST(KeyTableTest, HasALinePerKey) {
  EXPECT_EQ(KeyTable({Weights()}),
            "key    dtype  shape  version  size\n"
            "fc1.w  f32    [2,3]  12       24 B\n");
}

TEST(KeyTableTest, IsWideWhereThatIsWanted) {
  EXPECT_EQ(KeyTable({Weights()}, Columns::kWide),
            "key    dtype  shape  version  size  state  updates  rule\n"
            "fc1.w  f32    [2,3]  12       24 B  0 B    0        "
            "assign\n");
}

TEST(WorkerTableTest, IsWideWhereThatIsWanted) {
  const std::string table = WorkerTable(
      {{"w0", {0, 5}, true, 9}, {"w1", {1, 6}, true, 4}}, Columns::kWide);

  EXPECT_THAT(table, HasSubstr("lease  behind\n"));
  EXPECT_THAT(table, HasSubstr("1     w1      6      live   4     0      5\n"));
}

TEST(KeyTextTest, HasAllFields) {
  EXPECT_THAT(KeyText(Weights()), AllOf(HasSubstr("key:           fc1.w\n"),
                                        HasSubstr("rule:          assign\n"),
                                        Not(HasSubstr("digest"))));
}

TEST(KeyTextTest, DigestIsThereWhenAskedFor) {
  KeyStatus status = Weights();
  status.digest = 0xab;

  EXPECT_THAT(KeyText(status), HasSubstr("digest:        00000000000000ab\n"));
}

TEST(NamespaceTextTest, HasModeAndRules) {
  NamespaceStatus status;
  status.name = "n";
  status.config.mode = Mode::kSync;
  status.rules = {{"*.bias", {.name = "sgd"}}, {"", {.name = "assign"}}};

  EXPECT_THAT(NamespaceText(status),
              AllOf(HasSubstr("mode:               sync\n"),
                    HasSubstr("rule of *.bias:     sgd\n"),
                    HasSubstr("rule of *:          assign\n")));
}

TEST(NamespaceTextTest, HasWhatIsOnEachGpu) {
  NamespaceStatus status;
  status.device_memory = {{"cuda:0", {1, 2, 3}}, {"cuda:2", {4096}}};

  EXPECT_THAT(NamespaceText(status),
              AllOf(HasSubstr("on cuda:0:          6 B\n"),
                    HasSubstr("on cuda:2:          4.0 KiB\n")));
}

TEST(NamespaceTextTest, HasWhatCallsWaitFor) {
  NamespaceStatus status;
  status.waits = {
      {.reason = WaitReason::kKey},
      {WaitReason::kRound, 2, 3, absl::Milliseconds(1500)},
  };

  EXPECT_THAT(
      NamespaceText(status),
      AllOf(HasSubstr("waits for rounds:   2 now, 3 ended, 1.5s in all\n"),
            Not(HasSubstr("waits for keys"))));
}

TEST(NamespaceTextTest, HasWhatTheGuardFinds) {
  NamespaceStatus status;
  status.config.gradient_guard = {.on_non_finite = OnNonFinite::kSkip,
                                  .max_norm = 1.5};
  status.guard_counts = {{.rank = 2, .not_finite = 3, .too_large = 4}};

  EXPECT_THAT(
      NamespaceText(status),
      AllOf(HasSubstr("non-finite:         skip\n"),
            HasSubstr("norms:              clip above 1.5\n"),
            HasSubstr("guard, rank 2:      3 not finite, 4 too large")));
}

TEST(NamespaceTableTest, CountsAllMemory) {
  NamespaceStatus status;
  status.name = "n";
  status.memory = {.values = 1, .state = 2, .contributions = 3};

  EXPECT_EQ(NamespaceTable({status}),
            "namespace  mode   workers  keys  size  rule\n"
            "n          async  0        0     6 B   assign\n");
}

TEST(RuleTableTest, DefaultRuleMatchesAll) {
  EXPECT_EQ(RuleTable({{"", {.name = "assign"}}}),
            "pattern  rule\n*        assign\n");
}

}  // namespace
}  // namespace tensorkv

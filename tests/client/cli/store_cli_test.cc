#include <memory>
#include <string>

#include "absl/strings/str_split.h"
#include "client/cli/npy.h"
#include "client/cli/run_cli.h"
#include "client/local/local_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli/run_on.h"
#include "tests/client/shared_connection.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::Outcome;
using ::tensorkv::testing::RunOn;
using ::tensorkv::testing::SharedConnection;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Command lines, split at blanks, one after the other on a store in this
// process.
class StoreCliTest : public ::testing::Test {
 protected:
  Outcome Run(const std::string& line, const std::string& input = "") {
    return RunOn([&] { return std::make_unique<SharedConnection>(store_); },
                 absl::StrSplit(line, ' ', absl::SkipEmpty()), input);
  }

  // What a command prints that succeeds.
  std::string Print(const std::string& line, const std::string& input = "") {
    const Outcome outcome = Run(line, input);
    EXPECT_EQ(outcome.exit_code, kExitOk) << line << ": " << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
  }

  LocalConnection store_;
};

TEST_F(StoreCliTest, StoreInNoCluster) {
  const Outcome outcome = Run("cluster status");

  EXPECT_EQ(outcome.exit_code, kExitCallFailed);
  EXPECT_THAT(outcome.err, HasSubstr("in no cluster"));
}

TEST_F(StoreCliTest, RowsAlone) {
  Print("init w --shape=3,2 --fill=1");

  EXPECT_EQ(Print("push w --rows=2,0,2 --fill=5"), "w: version 2\n");
  EXPECT_EQ(Print("pull w --rows=2,1"), "10.0 10.0\n1.0 1.0\n");
  EXPECT_EQ(Print("push w --rows 1 --update_all_rows --fill=5"),
            "w: version 3\n");
  EXPECT_EQ(Print("pull w"), "0.0 0.0\n5.0 5.0\n0.0 0.0\n");
  EXPECT_THAT(Run("pull w --rows=3").err, HasSubstr("got 3"));
  EXPECT_EQ(Run("push w --rows=1 --fill=5 --compression=f16").exit_code,
            kExitUsage);
}

TEST_F(StoreCliTest, ValuesOfAnotherDType) {
  Print("init w --shape=2 --fill=9");

  // f8e5m2 has 8 and 10; of two that are as near it is the even one.
  EXPECT_EQ(Print("pull w --dtype=f8e5m2"), "8.0 8.0\n");
  EXPECT_THAT(Print("pull w --dtype=f16 --output=json"), HasSubstr("\"f16\""));
  EXPECT_EQ(Run("pull w --dtype=i8").exit_code, kExitUsage);
  EXPECT_EQ(Run("pull w --dtype=f16 --rows=1").exit_code, kExitUsage);
}

TEST_F(StoreCliTest, JsonHasAnObjectPerLine) {
  Print("init 3 5 --shape=1 --fill=2");

  EXPECT_EQ(Print("pull 3 5 --output=json"),
            "{\"key\":\"3\",\"dtype\":\"f32\",\"shape\":[1],\"version\":1,"
            "\"values\":[2.0]}\n"
            "{\"key\":\"5\",\"dtype\":\"f32\",\"shape\":[1],\"version\":1,"
            "\"values\":[2.0]}\n");
}

TEST_F(StoreCliTest, PushPrintsTheVersionOfEachKey) {
  Print("init 3 5 --shape=1 --fill=2");

  EXPECT_EQ(Print("push 3 5 --fill=1 --times=2"),
            "3: version 2\n5: version 2\n");
  EXPECT_EQ(Print("--output=json push 3 --fill=1"),
            "{\"key\":\"3\",\"version\":3}\n");
}

TEST_F(StoreCliTest, PushPullPrintsTheOutcomeOfEachKey) {
  Print("init 3 5 --shape=1 --fill=2");

  EXPECT_EQ(Print("pushpull 3 5 --fill=1 --times=3"), "3:\n3.0\n5:\n3.0\n");
}

TEST_F(StoreCliTest, PushTakesDTypeAndShapeOfTheKey) {
  Print("init 3 --shape=2 --dtype=i32 --fill=2");

  Print("push 3 --fill=-7");

  EXPECT_EQ(Print("pull 3"), "-7 -7\n");
}

TEST_F(StoreCliTest, SyncPushNamesItsRound) {
  Print("ns create train --mode=sync --workers=1");
  Print("init w --shape=1 --fill=0 --namespace=train");

  EXPECT_EQ(Print("push w --fill=4 --namespace=train --rank=0 --step=1"),
            "w: step 1\n");
  EXPECT_EQ(Print("pull w --namespace=train"), "4.0\n");
}

TEST_F(StoreCliTest, NpyGoesInAndOutThroughTheStandardStreams) {
  ASSERT_OK_AND_ASSIGN(const std::string file, FormatNpy(Full({2, 2}, 5)));

  Print("init 3 --npy -", file);

  EXPECT_EQ(Print("pull 3 --npy -"), file);
}

TEST_F(StoreCliTest, InitOfAnExistingKeyCanKeepOrReplace) {
  Print("init 3 --shape=1 --fill=2");

  EXPECT_EQ(Run("init 3 --shape=1 --fill=9").exit_code, kExitCallFailed);
  Print("init 3 --shape=1 --fill=9 --on_existing=keep");
  EXPECT_EQ(Print("pull 3"), "2.0\n");
  Print("init 3 --shape=1 --fill=9 --on_existing=replace");
  EXPECT_EQ(Print("pull 3"), "9.0\n");
}

TEST_F(StoreCliTest, LsStatAndRm) {
  Print("init a1 a2 b --shape=2,3 --fill=2");

  EXPECT_EQ(Print("ls a"),
            "key  dtype  shape  version  size\n"
            "a1   f32    [2,3]  1        24 B\n"
            "a2   f32    [2,3]  1        24 B\n");
  EXPECT_THAT(Print("stat a1 b --digest"),
              AllOf(HasSubstr("key:           a1\n"), HasSubstr("\n\nkey:"),
                    HasSubstr("digest:")));
  EXPECT_EQ(Print("rm a1 nothing --allow_missing"), "deleted 1\n");
  EXPECT_EQ(Print("rm a2 --output=json"), "{\"deleted\":1}\n");
  EXPECT_THAT(Print("ls --output=json"), StartsWith("{\"key\":\"b\""));
}

TEST_F(StoreCliTest, NamespacesAreCreatedListedDescribedAndRemoved) {
  Print("ns create train --mode=sync --workers=2 --rule=sgd --budget=1MiB");

  EXPECT_THAT(Print("ns ls"), HasSubstr("\ntrain      sync   2 "));
  EXPECT_THAT(Print("ns describe train"),
              AllOf(HasSubstr("mode:               sync\n"),
                    HasSubstr("budget:             1.0 MiB\n")));
  EXPECT_THAT(Print("ns describe --output=json --namespace=train"),
              StartsWith("{\"namespace\":\"train\",\"mode\":\"sync\""));
  Print(
      "ns create train --mode=sync --workers=2 --rule=sgd --budget=1MiB "
      "--keep");
  EXPECT_THAT(Print("workers train"), StartsWith("rank  worker  epoch"));
  EXPECT_EQ(Print("workers --namespace=train --output=json"), "");
  Print("ns rm train");
  EXPECT_THAT(Print("ns ls --output=json"), Not(HasSubstr("train")));
}

TEST_F(StoreCliTest, NamespacesHaveTheGuardOfTheFlags) {
  for (const std::string policy : {"apply", "count", "skip", "refuse"}) {
    Print("ns create " + policy + " --non_finite=" + policy +
          " --max_norm=1.5 --max_call_norm=2.5 --large_norm=refuse");
    EXPECT_THAT(Print("ns describe --output=json " + policy),
                HasSubstr("\"gradient_guard\":{\"on_non_finite\":\"" + policy +
                          "\",\"max_norm\":1.5,\"max_call_norm\":2.5,"
                          "\"on_large_norm\":\"refuse\",\"counts\":[]}"));
  }
}

TEST_F(StoreCliTest, NamespacesHaveTheAggregationOfTheFlags) {
  Print("ns create m --mode=sync --workers=3 --aggregation=median");
  Print(
      "ns create t --mode=sync --workers=3 --aggregation=trimmed_mean "
      "--trim_fraction=0.25");

  EXPECT_THAT(Print("ns describe m"),
              HasSubstr("aggregation:        median\n"));
  EXPECT_THAT(
      Print("ns describe t"),
      HasSubstr("aggregation:        trimmed_mean without 0.25 at each end\n"));
  EXPECT_THAT(Print("ns describe --output=json t"),
              HasSubstr("\"aggregation\":\"trimmed_mean\",\"trim_fraction\":"
                        "0.25"));
}

TEST_F(StoreCliTest, RulesAreSetTunedAndPrinted) {
  Print("rule set sgd(learning_rate=0.5)");
  Print("rule set adam --pattern=*.bias");

  EXPECT_THAT(
      Print("rule tune momentum=0.25 learning_rate=0.125"),
      AllOf(HasSubstr("momentum=0.25"), HasSubstr("learning_rate=0.125")));
  EXPECT_THAT(Print("rule get"),
              AllOf(HasSubstr("*.bias   adam"), HasSubstr("*        sgd")));
  EXPECT_THAT(Print("rule get --output=json"),
              HasSubstr("{\"pattern\":\"*.bias\",\"rule\":\"adam\""));

  EXPECT_EQ(Print("rule set --lr_mult=2 --wd_mult=0 --pattern=*.bias"), "");
  EXPECT_THAT(Print("rule get"), HasSubstr("*.bias   2        0\n"));
  Print("init fc.bias --shape=1 --fill=0");
  EXPECT_THAT(Print("rule get fc.bias"),
              AllOf(HasSubstr("adam("), HasSubstr("update count:        0\n"),
                    HasSubstr("next learning rate:  0.002\n")));
  EXPECT_EQ(Print("rule unset *.bias --multipliers"), "");
  EXPECT_EQ(Print("rule unset *.bias"), "");
  EXPECT_THAT(Print("rule get"), ::testing::Not(HasSubstr("*.bias")));
}

TEST_F(StoreCliTest, RatesAreThoseOfHyperparametersOfTheRule) {
  Print("init w --shape=1 --fill=0");
  Print(
      "rule set "
      "expression(lr=0.5,weight_decay=0.25):stored-=lr*weight_decay*grad");

  EXPECT_THAT(Print("stat w"), AllOf(Not(HasSubstr("next learning rate:")),
                                     HasSubstr("next weight decay:  0.25\n")));
  EXPECT_THAT(Print("stat w --output=json"),
              AllOf(Not(HasSubstr("next_learning_rate")),
                    HasSubstr("\"next_weight_decay\":0.25")));
}

TEST_F(StoreCliTest, FailedCallIsOneLineAndExitCode1) {
  const Outcome outcome = Run("pull x");

  EXPECT_EQ(outcome.exit_code, kExitCallFailed);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("tensorkv: NOT_FOUND: key \"x\""));
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1);
}

TEST_F(StoreCliTest, CommandsTakeTheNamesOfOthersAsKeys) {
  Print("init ls rule --shape=1 --fill=2");

  EXPECT_EQ(Print("pull ls rule"), "ls:\n2.0\nrule:\n2.0\n");
}

TEST_F(StoreCliTest, BracketsBelongToNames) {
  Print("init [a,b] [c] c --shape=2 --fill=1");

  EXPECT_EQ(Print("pull [a,b]"), "1.0 1.0\n");
  EXPECT_EQ(Print("rm [c]"), "deleted 1\n");
  EXPECT_EQ(Print("pull c"), "1.0 1.0\n");
}

TEST_F(StoreCliTest, PrefixStandsForAllKeysThatBeginLikeIt) {
  Print("init a1 a2 b --shape=1 --fill=2");

  EXPECT_EQ(Print("pull --prefix=a"), "a1:\n2.0\na2:\n2.0\n");
  EXPECT_EQ(Print("rm -p a"), "deleted 2\n");
  EXPECT_EQ(Print("rm -p a"), "deleted 0\n");
  EXPECT_EQ(Print("pull -p a"), "");
  EXPECT_EQ(Print("pull b"), "2.0\n");
}

TEST_F(StoreCliTest, LsEndsAtItsLimit) {
  Print("init a b c --shape=1 --fill=2");

  const std::string keys = Print("ls --limit=2 --output=json");

  EXPECT_THAT(keys, AllOf(HasSubstr("\"a\""), HasSubstr("\"b\"")));
  EXPECT_THAT(keys, Not(HasSubstr("\"c\"")));
}

TEST_F(StoreCliTest, FlagsHaveShortNamesAndTakeDashes) {
  Print("ns create n");
  Print("init w --shape=1 -f 2 -n n --on-existing=keep");

  EXPECT_THAT(Print("pull w -n n -o json -t 5s"), HasSubstr("[2.0]"));
  EXPECT_THAT(Print("stat w -d -n n"), HasSubstr("digest:"));
}

TEST_F(StoreCliTest, NamespaceWithKeysIsRemovedOnlyByForce) {
  Print("ns create n");
  Print("init w --shape=1 --fill=2 --namespace=n");

  const Outcome outcome = Run("ns rm n");
  EXPECT_EQ(outcome.exit_code, kExitCallFailed);
  EXPECT_THAT(outcome.err, HasSubstr("has 1 keys: --force"));
  Print("ns rm n --force");
  EXPECT_THAT(Print("ns ls"), Not(HasSubstr("\nn ")));
}

}  // namespace
}  // namespace tensorkv

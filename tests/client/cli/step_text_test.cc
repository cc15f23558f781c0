#include "client/cli/step_text.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

template <typename Message>
std::string TextOfParsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return TextOf(message);
}

TEST(StepTextTest, RanksThatContributedAlikeAreOneRange) {
  const auto text = TextOfParsed<v1::StepContributors>;
  EXPECT_EQ(text("contributions { } contributions { rank: 1 } contributions { "
                 "rank: 2 } contributions { rank: 4 } num_keys: 3"),
            "3 keys: 0-2 4");
  EXPECT_EQ(text("contributions { } contributions { rank: 1 skipped: true } "
                 "contributions { rank: 2 skipped: true } missing: 3 "
                 "missing: 5 num_keys: 1 keys: 'w' keys: 'x'"),
            "1 key: 0 1-2 skipped without 3 5 (w x)");
  EXPECT_EQ(text("contributions { weight: 1 } contributions { rank: 1 weight: "
                 "0.5 } contributions { rank: 1 weight: 0.25 carried_from: 7 "
                 "} contributions { rank: 1 carried_from: 8 skipped: true } "
                 "num_keys: 2"),
            "2 keys: 0 1 weighs 0.5 1 weighs 0.25 of step 7 1 skipped of step "
            "8");
  EXPECT_EQ(text(""), "0 keys: nobody");
}

TEST(StepTextTest, FailuresAndWorkersSayWhatThereIs) {
  EXPECT_EQ(TextOfParsed<v1::StepFailure>(
                "reason: 'rank 5 was lost' num_rounds: 2 keys: 'a' keys: 'b'"),
            "2 rounds of a b: rank 5 was lost");
  EXPECT_EQ(TextOfParsed<v1::StepWorker>("rank: 3"), "3");
  EXPECT_EQ(TextOfParsed<v1::StepWorker>(
                "rank: 3 name: 'c' late_refused: 1 late_carried: 2 late_taken: "
                "3 late_dropped: 4 duplicates_refused: 5 guard_clipped: 6 "
                "guard_skipped: 7 guard_refused: 8 greatest_norm: 1.5"),
            "3 (c) late_refused=1 late_carried=2 late_taken=3 late_dropped=4 "
            "duplicates_refused=5 guard_clipped=6 guard_skipped=7 "
            "guard_refused=8 greatest_norm=1.5");
}

}  // namespace
}  // namespace tensorkv

#include "service/store/namespace_status.h"

#include <string>

#include "absl/time/time.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace tensorkv {
namespace {

// Expects that the message is what `text` says.
template <typename Message>
void ExpectIs(const Message& message, const std::string& text) {
  Message expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(message, expected))
      << message.DebugString();
}

TEST(NamespaceStatusTest, HasEveryNumberOfTheSummary) {
  const NamespaceSummary summary = {
      .name = "n",
      .uid = 1,
      .revision = 2,
      .budget_bytes = 3,
      .num_keys = 4,
      .memory = {5, 6, 7, 8},
      .device_memory = {{"cuda:0", {9, 10, 11, 12}}},
      .updates_applied = 13,
      .rounds_open = 14,
      .rounds_closed = 15,
      .rounds_failed = 16,
      .calls_waiting = 17,
      .waits = {{WaitReason::kKey, 18, 19, absl::Seconds(20)},
                {WaitReason::kAttempt, 21, 22, absl::Milliseconds(1500)}},
      .live_workers = 23,
      .lease_expirations = 24,
      .contributions_late = 25,
      .contributions_duplicate = 26,
      .contributions_fenced = 27,
      .slowest_lag = 28,
      .guard_counts = {{{}, 29, 30}, {0, 31, 32}}};
  v1::NamespaceStatus status;

  ToProto(summary, &status);

  ExpectIs(status, R"pb(
    name: "n"
    uid: 1
    revision: 2
    num_keys: 4
    memory { values: 5 state: 6 contributions: 7 metadata: 8 }
    device_memory {
      device: "cuda:0"
      memory { values: 9 state: 10 contributions: 11 metadata: 12 }
    }
    updates_applied: 13
    rounds_open: 14
    rounds_closed: 15
    rounds_failed: 16
    calls_waiting: 17
    waits {
      reason: WAIT_REASON_KEY
      calls_waiting: 18
      calls_ended: 19
      waited { seconds: 20 }
    }
    waits {
      reason: WAIT_REASON_ATTEMPT
      calls_waiting: 21
      calls_ended: 22
      waited { seconds: 1 nanos: 500000000 }
    }
    live_workers: 23
    lease_expirations: 24
    contributions_late: 25
    contributions_duplicate: 26
    contributions_fenced: 27
    slowest_lag: 28
    guard_counts { not_finite: 29 too_large: 30 }
    guard_counts { rank: 0 not_finite: 31 too_large: 32 }
  )pb");
}

TEST(NamespaceStatusTest, BindingsHaveTheirPatterns) {
  v1::RuleBinding rule;
  v1::MultipliersBinding multipliers;

  ToProto(RuleBinding{"a*", {.name = "sgd"}}, &rule);
  ToProto(MultipliersBinding{"b*", {.learning_rate = 2, .weight_decay = 0}},
          &multipliers);

  ExpectIs(rule, R"pb(key_pattern: "a*"
                      rule { name: "sgd" keep_master: true })pb");
  ExpectIs(multipliers,
           R"pb(key_pattern: "b*"
                multipliers { learning_rate: 2 weight_decay: 0 })pb");
}

}  // namespace
}  // namespace tensorkv

#include "service/metrics/metered_tensor_store.h"

#include <optional>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/metrics/exposition.h"
#include "tests/service/mock_store.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::AnswerWith;
using testing::Exposition;
using ::testing::HasSubstr;
using ::testing::Return;
using testing::StatusIs;
using testing::Vector;

class MeteredTensorStoreTest : public ::testing::Test {
 protected:
  // Pulls; the inner store takes `wait` until it answers `reply`.
  absl::StatusOr<PullReply> Pull(absl::Duration wait,
                                 absl::StatusOr<PullReply> reply) {
    EXPECT_CALL(inner_, Pull)
        .WillOnce([&](PullRequest, CallContext, ReplyCallback<PullReply> done) {
          clock_.Advance(wait);
          std::move(done)(reply);
        });
    std::optional<absl::StatusOr<PullReply>> answer;
    store_.Pull({}, {}, [&](absl::StatusOr<PullReply> got) {
      answer = std::move(got);
    });
    return *answer;
  }

  std::string Scrape() { return Exposition(registry_); }

  testing::MockTensorStore inner_;
  FakeAlarms clock_;
  prometheus::Registry registry_;
  MeteredTensorStore store_{&inner_, &clock_, &registry_};
};

TEST_F(MeteredTensorStoreTest, InitCountsBytesReceived) {
  EXPECT_CALL(inner_, Init).WillOnce(AnswerWith<InitReply>(InitReply{{1, 1}}));
  size_t num_versions = 0;

  store_.Init({.entries = {{"a", Vector({1, 2})}, {"b", Vector({3})}}}, {},
              [&](absl::StatusOr<InitReply> reply) {
                num_versions = reply->versions.size();
              });

  EXPECT_EQ(num_versions, 2u);
  EXPECT_THAT(Scrape(),
              HasSubstr("tensorkv_received_bytes_total{method=\"Init\"} 12\n"));
}

TEST_F(MeteredTensorStoreTest, PushCountsBytesReceived) {
  EXPECT_CALL(inner_, Push)
      .WillOnce(AnswerWith<PushReply>(PushReply{{{.version = 2}}}));
  Version version = 0;

  store_.Push({.entries = {{.key = "a", .tensor = Vector({1, 2})}}}, {},
              [&](absl::StatusOr<PushReply> reply) {
                version = reply->results[0].version;
              });

  EXPECT_EQ(version, 2u);
  EXPECT_THAT(Scrape(),
              HasSubstr("tensorkv_received_bytes_total{method=\"Push\"} 8\n"));
}

TEST_F(MeteredTensorStoreTest, SkippedEntriesCountNoBytes) {
  EXPECT_CALL(inner_, Push).WillOnce(AnswerWith<PushReply>(PushReply()));

  store_.Push({.entries = {{.key = "a", .skip = true}}}, {}, [](auto) {});

  EXPECT_THAT(Scrape(),
              HasSubstr("tensorkv_received_bytes_total{method=\"Push\"} 0\n"));
}

TEST_F(MeteredTensorStoreTest, PushPullCountsBothWays) {
  EXPECT_CALL(inner_, PushPull)
      .WillOnce(
          AnswerWith<PullReply>(PullReply{{{.tensor = Vector({1, 2, 3})}}}));

  store_.PushPull({.entries = {{.key = "a", .tensor = Vector({1, 2})}}}, {},
                  [](auto) {});

  const std::string text = Scrape();
  EXPECT_THAT(text, HasSubstr("tensorkv_received_bytes_total{method="
                              "\"PushPull\"} 8\n"));
  EXPECT_THAT(text,
              HasSubstr("tensorkv_sent_bytes_total{method=\"PushPull\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("tensorkv_wait_seconds_count{method=\"PushPull\","
                              "outcome=\"answered\"} 1\n"));
}

TEST_F(MeteredTensorStoreTest, PullCountsBytesSentAndTime) {
  ASSERT_OK(Pull(absl::Seconds(3), PullReply{{{.tensor = Vector({1, 2})}}}));

  const std::string text = Scrape();
  EXPECT_THAT(text,
              HasSubstr("tensorkv_sent_bytes_total{method=\"Pull\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("tensorkv_wait_seconds_sum{method=\"Pull\","
                              "outcome=\"answered\"} 3\n"));
}

struct Failure {
  absl::StatusCode code;
  const char* outcome;
};

class PullFailureTest : public MeteredTensorStoreTest,
                        public ::testing::WithParamInterface<Failure> {};

TEST_P(PullFailureTest, IsTimedByItsOutcomeAndPassedOn) {
  EXPECT_THAT(Pull(absl::Seconds(2), absl::Status(GetParam().code, "why")),
              StatusIs(GetParam().code, "why"));

  EXPECT_THAT(Scrape(),
              HasSubstr(std::string("tensorkv_wait_seconds_sum{method=\"Pull\","
                                    "outcome=\"") +
                        GetParam().outcome + "\"} 2\n"));
}

INSTANTIATE_TEST_SUITE_P(
    Codes, PullFailureTest,
    ::testing::Values(Failure{absl::StatusCode::kDeadlineExceeded, "expired"},
                      Failure{absl::StatusCode::kCancelled, "cancelled"},
                      Failure{absl::StatusCode::kAborted, "failed"},
                      Failure{absl::StatusCode::kNotFound, "failed"}));

TEST_F(MeteredTensorStoreTest, EverythingElsePassesThrough) {
  EXPECT_CALL(inner_, Delete).WillOnce(Return(DeleteReply{4}));
  EXPECT_CALL(inner_, List).WillOnce(Return(ListReply{{}, "next"}));
  EXPECT_CALL(inner_, Stat).WillOnce(Return(absl::NotFoundError("no key")));

  EXPECT_EQ(store_.Delete({}, {})->num_deleted, 4u);
  EXPECT_EQ(store_.List({}, {})->next_page_token, "next");
  EXPECT_THAT(store_.Stat({}, {}),
              StatusIs(absl::StatusCode::kNotFound, "no key"));
}

}  // namespace
}  // namespace tensorkv

#include "client/internal/calls/metered_connection.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/prometheus/client_metrics.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "tests/client/call_verb.h"
#include "tests/client/scripted_connection.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::CallVerb;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::Script;
using ::tensorkv::testing::ScriptedConnection;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

class MeteredConnectionTest : public ::testing::TestWithParam<std::string> {
 protected:
  MeteredConnectionTest()
      : connection_(std::make_unique<ScriptedConnection>(script_),
                    std::make_shared<ClientMetrics>(registry_),
                    [this] { return now_; }) {}

  std::string Scrape() const {
    return prometheus::TextSerializer().Serialize(registry_->Collect());
  }

  // The labels that all series of a verb have.
  static std::string Labels(const std::string& verb) {
    const auto* const method = std::ranges::find_if(
        kUnaryMethods, [&](Method each) { return NameOf(each) == verb; });
    return absl::StrCat("grpc_method=\"", verb, "\",grpc_service=\"",
                        NameOf(ServiceOf(*method)), "\",grpc_type=\"unary\"");
  }

  std::shared_ptr<prometheus::Registry> registry_ =
      std::make_shared<prometheus::Registry>();
  absl::Duration now_;
  Script script_;
  MeteredConnection connection_;
};

INSTANTIATE_TEST_SUITE_P(, MeteredConnectionTest,
                         ::testing::ValuesIn(::tensorkv::testing::AllVerbs()));

TEST_P(MeteredConnectionTest, EveryVerbIsCountedUnderItsName) {
  ASSERT_OK(CallVerb(GetParam(), connection_));

  const std::string labels = Labels(GetParam());
  EXPECT_THAT(Scrape(),
              HasSubstr("grpc_client_started_total{" + labels + "} 1"));
  EXPECT_THAT(Scrape(),
              HasSubstr("grpc_client_handled_total{grpc_code=\"OK\"," + labels +
                        "} 1"));
  EXPECT_THAT(Scrape(), HasSubstr("grpc_client_handling_seconds_count{" +
                                  labels + "} 1"));
}

TEST_F(MeteredConnectionTest, FailuresAreCountedByCode) {
  script_.statuses = {absl::NotFoundError("x"), absl::NotFoundError("y")};

  EXPECT_THAT(CallVerb("Pull", connection_),
              StatusIs(absl::StatusCode::kNotFound, "x"));
  EXPECT_THAT(CallVerb("Pull", connection_),
              StatusIs(absl::StatusCode::kNotFound, "y"));

  EXPECT_THAT(Scrape(),
              HasSubstr("grpc_client_handled_total{grpc_code=\"NotFound\"," +
                        Labels("Pull") + "} 2"));
}

TEST_F(MeteredConnectionTest, CodesThatNeverCameHaveNoSeries) {
  ASSERT_OK(CallVerb("Pull", connection_));

  EXPECT_THAT(Scrape(), Not(HasSubstr("Unavailable")));
}

TEST_F(MeteredConnectionTest, DurationFallsIntoItsBucket) {
  script_.during_call = [this] { now_ += absl::Milliseconds(7); };

  ASSERT_OK(CallVerb("Push", connection_));

  EXPECT_THAT(Scrape(), HasSubstr("grpc_client_handling_seconds_bucket{" +
                                  Labels("Push") + ",le=\"0.006\"} 0"));
  EXPECT_THAT(Scrape(), HasSubstr("grpc_client_handling_seconds_bucket{" +
                                  Labels("Push") + ",le=\"0.008\"} 1"));
}

TEST_F(MeteredConnectionTest, TensorsSentCountTheirBytes) {
  const Tensor tensor = Full({2, 3}, 1);

  ASSERT_OK(connection_.Call(InitRequest{.entries = {{"a", tensor}}}, {}));
  ASSERT_OK(
      connection_.Call(PushRequest{.entries = {{.key = "a", .tensor = tensor},
                                               {.key = "b", .skip = true}}}));

  EXPECT_THAT(Scrape(), HasSubstr("tensorkv_client_sent_bytes_total 48"));
  EXPECT_THAT(Scrape(), HasSubstr("tensorkv_client_received_bytes_total 0"));
}

TEST_F(MeteredConnectionTest, WhatIsCastCountsTheBytesThatItBecomes) {
  const std::vector<SendCast> casts = {{}, {DType::kF16}};
  CallOptions options;
  options.casts = casts;

  ASSERT_OK(connection_.Call(
      PushRequest{.entries = {{.key = "a", .tensor = Full({2, 3}, 1)},
                              {.key = "b", .tensor = Full({2, 3}, 1)}}},
      options));

  EXPECT_THAT(Scrape(), HasSubstr("tensorkv_client_sent_bytes_total 36"));
}

TEST_F(MeteredConnectionTest, TensorsReceivedCountTheirBytes) {
  const PullReply reply = {{{1, Full({4}, 1)}, {1, Full({1}, 1)}}};
  script_.reply<PullRequest>() = reply;
  script_.reply<PushPullRequest>() = reply;

  ASSERT_OK(CallVerb("Pull", connection_));
  ASSERT_OK(CallVerb("PushPull", connection_));

  EXPECT_THAT(Scrape(), HasSubstr("tensorkv_client_received_bytes_total 40"));
}

TEST_F(MeteredConnectionTest, ConnectionsOfOneRegistryShareTheirSeries) {
  MeteredConnection other(std::make_unique<ScriptedConnection>(script_),
                          std::make_shared<ClientMetrics>(registry_),
                          [this] { return now_; });

  ASSERT_OK(CallVerb("Stat", connection_));
  ASSERT_OK(CallVerb("Stat", other));

  EXPECT_THAT(Scrape(),
              HasSubstr("grpc_client_started_total{" + Labels("Stat") + "} 2"));
}

}  // namespace
}  // namespace tensorkv

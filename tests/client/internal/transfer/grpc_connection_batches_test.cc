// Pulls of many small values.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/internal/transfer/grpc_connection.h"
#include "contract/grpc_status.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_stream_service.h"
#include "tests/client/patterned_tensor.h"
#include "tests/contract/generated_codec.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::FakeStreamService;
using ::tensorkv::testing::Patterned;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;

constexpr int kNumKeys = 700;

class GrpcConnectionBatchesTest : public ::testing::Test {
 protected:
  GrpcConnectionBatchesTest()
      : connection_(
            GrpcConnection::Create(
                {.target = service_.Start(),
                 .transfer = {.stream_threshold_bytes = uint64_t{1} << 20,
                              .bulk_connections = 2}})
                .value()) {
    for (int i = 0; i < kNumKeys; ++i) {
      request_.entries.push_back({absl::StrCat("k", i)});
      service_.values.push_back(
          {static_cast<Version>(i + 1), Patterned(1000, i)});
    }
    ToProto(PullReply{service_.values}, &service_.pull_response);
  }

  // The server knows batches, and sends two.
  void AnswerInBatches() {
    service_.edit = [this](const v1::Stripe&,
                           std::vector<v1::PullChunk>* chunks) {
      EXPECT_TRUE(service_.streams().back().pull.allow_batches());
      const auto middle = service_.values.begin() + kNumKeys / 3;
      chunks->assign(2, {});
      ToProto(PullReply{{service_.values.begin(), middle}},
              (*chunks)[0].mutable_batch());
      ToProto(PullReply{{middle, service_.values.end()}},
              (*chunks)[1].mutable_batch());
    };
  }

  void PullAll() {
    ASSERT_OK_AND_ASSIGN(const PullReply reply,
                         connection_->Call(request_, {}));
    ASSERT_EQ(reply.values.size(), service_.values.size());
    for (size_t i = 0; i < reply.values.size(); ++i) {
      ASSERT_EQ(reply.values[i].version, service_.values[i].version);
      ASSERT_EQ(BytesOf(reply.values[i].tensor),
                BytesOf(service_.values[i].tensor));
    }
  }

  FakeStreamService service_;
  const std::unique_ptr<Connection> connection_;
  PullRequest request_;
};

TEST_F(GrpcConnectionBatchesTest, ComeOnceTheirSizeIsKnown) {
  AnswerInBatches();

  PullAll();
  PullAll();
  PullAll();

  EXPECT_THAT(service_.rpcs(), ElementsAre("Pull", "PullStream", "PullStream"));
}

TEST_F(GrpcConnectionBatchesTest, ServerMaySendAManifestAndParts) {
  PullAll();
  PullAll();

  EXPECT_THAT(service_.rpcs(), ElementsAre("Pull", "PullStream"));
}

// Which must not be written where one of them does not fit.
TEST_F(GrpcConnectionBatchesTest, ValuesForDestinationsComeInOneMessage) {
  AnswerInBatches();
  PullAll();
  const std::vector<Destination> destinations(kNumKeys);

  ASSERT_OK(connection_->Call(request_, {.destinations = destinations}));

  EXPECT_THAT(service_.rpcs(), ElementsAre("Pull", "Pull"));
}

TEST_F(GrpcConnectionBatchesTest, FewKeysAreOneMessage) {
  AnswerInBatches();
  PullAll();
  request_.entries.resize(100);
  service_.values.resize(100);
  service_.pull_response.Clear();
  ToProto(PullReply{service_.values}, &service_.pull_response);

  PullAll();

  EXPECT_THAT(service_.rpcs(), ElementsAre("Pull", "Pull"));
}

TEST_F(GrpcConnectionBatchesTest, RefusedStreamIsMadeAsAMessage) {
  PullAll();
  service_.after_manifest = [](const v1::Stripe&) {
    return ToGrpcStatus(
        testing::StatusOfReason(Reason::kLimitReached, "streams"));
  };

  PullAll();

  EXPECT_THAT(service_.rpcs(), ElementsAre("Pull", "PullStream", "Pull"));
}

TEST_F(GrpcConnectionBatchesTest, OtherErrorsAreTheCalls) {
  PullAll();
  service_.after_manifest = [](const v1::Stripe&) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "key \"k1\"");
  };

  EXPECT_THAT(connection_->Call(request_, {}),
              StatusIs(absl::StatusCode::kNotFound, "key \"k1\""));
  EXPECT_THAT(service_.rpcs(), ElementsAre("Pull", "PullStream"));
}

}  // namespace
}  // namespace tensorkv

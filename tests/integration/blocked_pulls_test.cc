// What 10,000 blocked pulls cost the server: memory, no threads.

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/tensorkv/v1/service.grpc.pb.h"
#include "tests/integration/server_process.h"
#include "tests/testing/sanitizers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace {

constexpr size_t kNumPulls = FewerIfSanitized(10'000);
constexpr size_t kNumChannels = 10;

// A pull of "w" that waits for its second version.
struct BlockedPull {
  grpc::ClientContext context;
  v1::PullResponse reply;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::PullResponse>> call;
};

class BlockedPullsTest : public ::testing::Test {
 protected:
  BlockedPullsTest()
      : server_({"--listen=127.0.0.1:0",
                 "--metrics_listen=", "--max_streams=2000", "--budget=64MiB"}),
        target_(server_.AwaitAddress()),
        client_(Client::Connect({.target = target_}).value()) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    for (size_t i = 0; i < kNumChannels; ++i) {
      stubs_.push_back(v1::Data::NewStub(grpc::CreateCustomChannel(
          target_, grpc::InsecureChannelCredentials(), arguments)));
    }
  }

  std::vector<std::unique_ptr<BlockedPull>> Start(
      size_t num_pulls, Version min_version,
      std::chrono::system_clock::time_point deadline) {
    v1::PullRequest request;
    request.add_entries()->set_key("w");
    request.mutable_entries(0)->set_min_version(min_version);
    std::vector<std::unique_ptr<BlockedPull>> pulls;
    for (size_t i = 0; i < num_pulls; ++i) {
      auto pull = std::make_unique<BlockedPull>();
      pull->context.set_deadline(deadline);
      pull->call = stubs_[i % kNumChannels]->AsyncPull(&pull->context, request,
                                                       &replies_);
      pull->call->Finish(&pull->reply, &pull->status, pull.get());
      pulls.push_back(std::move(pull));
    }
    return pulls;
  }

  void AwaitReplies(size_t num_replies) {
    for (size_t i = 0; i < num_replies; ++i) {
      void* tag = nullptr;
      bool is_ok = false;
      ASSERT_TRUE(replies_.Next(&tag, &is_ok));
    }
  }

  // Returns when so many calls wait at the server.
  void AwaitWaiting(size_t num_calls) {
    while (true) {
      const absl::StatusOr<NamespaceStatus> status =
          client_->DescribeNamespace("default");
      if (status.ok() && status->calls_waiting() == num_calls) return;
      absl::SleepFor(absl::Milliseconds(10));
    }
  }

  ServerProcess server_;
  const std::string target_;
  const std::unique_ptr<Client> client_;
  std::vector<std::unique_ptr<v1::Data::Stub>> stubs_;
  grpc::CompletionQueue replies_;
};

TEST_F(BlockedPullsTest, CostNoThreadAndEndAtTheirDeadlines) {
  using Clock = std::chrono::system_clock;
  ASSERT_OK(client_->Init("w", Full({4}, 1)));
  // So that gRPC has made its threads.
  const auto first = Start(kNumChannels, 2, Clock::now());
  AwaitReplies(kNumChannels);
  const int64_t threads = server_.StatusField("Threads:");
  const int64_t resident_kib = server_.StatusField("VmRSS:");

  const Clock::time_point start = Clock::now();
  const auto pulls = Start(kNumPulls, 2, start + std::chrono::hours(1));
  AwaitWaiting(kNumPulls);
  const Clock::duration time_to_wait = Clock::now() - start;

  std::cout << "threads: " << threads << ", with " << kNumPulls
            << " blocked pulls " << server_.StatusField("Threads:")
            << "; resident bytes per pull: "
            << (server_.StatusField("VmRSS:") - resident_kib) * 1024 /
                   static_cast<int64_t>(kNumPulls)
            << "\n";
  // gRPC makes a few more where a machine is busy.
  EXPECT_LE(server_.StatusField("Threads:"), threads + 16);
  // Who cancels as many at once is refused for some seconds.
  ASSERT_OK(client_->Push("w", Full({4}, 2)));
  AwaitReplies(kNumPulls);
  for (const auto& pull : pulls) ASSERT_TRUE(pull->status.ok());
  AwaitWaiting(0);

  // A tenth of them, with a deadline before which all wait.
  const auto late = Start(kNumPulls / 10, 3, Clock::now() + time_to_wait / 2);
  AwaitReplies(kNumPulls / 10);
  for (const auto& pull : late) {
    ASSERT_EQ(pull->status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  const auto names_what_is_missing = [](const auto& pull) {
    return absl::StrContains(pull->status.error_message(),
                             "expected version 3, got 2");
  };
  // Not all, on a busy machine: gRPC may notice the deadline first.
  EXPECT_TRUE(std::any_of(late.begin(), late.end(), names_what_is_missing));
  AwaitWaiting(0);
}

}  // namespace
}  // namespace tensorkv::testing

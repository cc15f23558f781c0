#include <cstdint>
#include <memory>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"
#include "contract/method.h"
#include "contract/reason.h"
#include "contract/retry_delay.h"
#include "gtest/gtest.h"
#include "tests/service/security/secure_server.h"
#include "tests/testing/background.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace secure_server_test {

using testing::Background;

class ServerQuotasTest : public SecureServerTest {};

// Pulls "k", for which it waits.
absl::Status PullOnceMade(testing::Stubs& stub, const char* token) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  v1::PullRequest pull;
  pull.set_namespace_(kNamespace);
  pull.set_wait_for_keys(true);
  pull.add_entries()->set_key("k");
  v1::PullResponse reply;
  return FromGrpcStatus(stub.Pull(&context, pull, &reply));
}

// What the server's memory holds.
uint64_t UsedBytes(testing::Stubs& stub) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer root");
  v1::DescribeServerResponse reply;
  EXPECT_TRUE(stub.DescribeServer(&context, {}, &reply).ok());
  return reply.used_bytes();
}

// A stream that brings a byte for "k", but not yet. The server has room for
// the byte, and has counted the stream, before anybody else calls: a call of
// the same caller could otherwise take the quota first.
class OpenInitStream {
 public:
  OpenInitStream(testing::Stubs& stub, const char* token) {
    const uint64_t used_bytes = UsedBytes(stub);
    context_.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    stream_ = stub.InitStream(&context_, &reply_);
    v1::InitChunk manifest;
    Fill(manifest, Method::kInitStream);
    stream_->Write(manifest);
    while (UsedBytes(stub) <= used_bytes) std::this_thread::yield();
  }
  void Cancel() {
    context_.TryCancel();
    stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  v1::InitResponse reply_;
  std::unique_ptr<grpc::ClientWriter<v1::InitChunk>> stream_;
};

uint64_t CallsWaiting(testing::Stubs& stub) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer root");
  v1::DescribeNamespaceRequest request;
  request.set_namespace_(kNamespace);
  v1::DescribeNamespaceResponse reply;
  EXPECT_TRUE(stub.DescribeNamespace(&context, request, &reply).ok());
  return reply.status().calls_waiting();
}

// Whether it holds within a number of calls that is larger than any should be.
bool Becomes(absl::FunctionRef<bool()> holds) {
  for (int i = 0; i < 10'000; ++i) {
    if (holds()) return true;
  }
  return false;
}

TEST_F(ServerQuotasTest, QuotaHoldsUpNobodyButItsCaller) {
  Write("policy", absl::StrCat(kPolicy,
                               "quotas { callers: \"token:pusher\" "
                               "max_calls: 1 max_streams: 1 }"));
  Start(Options());
  ASSERT_OK(Call(channel_, Method::kCreateNamespace, "admin"));
  const auto is_refused = [&](Method method, const char* caller) {
    const absl::Status status = Call(channel_, method, caller);
    return ReasonOf(status) == Reason::kLimitReached &&
           RetryDelayOf(status) == absl::Milliseconds(100);
  };
  OpenInitStream open(*stub_, "pusher");
  ASSERT_TRUE(
      Becomes([&] { return is_refused(Method::kPullStream, "pusher"); }));

  EXPECT_FALSE(is_refused(Method::kPullStream, "root"));
  EXPECT_FALSE(is_refused(Method::kPull, "pusher"));

  open.Cancel();
  EXPECT_TRUE(
      Becomes([&] { return !is_refused(Method::kPullStream, "pusher"); }));
}

// Workers of one job have one identity.
TEST_F(ServerQuotasTest, CallThatWaitsLeavesTheQuotaToTheOneThatEndsTheWait) {
  Write("policy", absl::StrCat(kPolicy,
                               "quotas { callers: \"token:pusher\" "
                               "max_calls: 1 max_streams: 1 max_bytes: 99 }"));
  Start(Options());
  ASSERT_OK(Call(channel_, Method::kCreateNamespace, "admin"));
  Background pulled([&] { return PullOnceMade(*stub_, "pusher"); });
  while (CallsWaiting(*stub_) == 0) std::this_thread::yield();

  // It counts as waiting a moment before it leaves its share.
  EXPECT_TRUE(Becomes([&] {
    const absl::Status status = Call(channel_, Method::kPull, "pusher");
    return ReasonOf(status) != Reason::kLimitReached;
  }));
  EXPECT_TRUE(
      Becomes([&] { return Call(channel_, Method::kInit, "pusher").ok(); }));

  EXPECT_OK(pulled.Result());
}

TEST_F(ServerQuotasTest, RefusalForAQuotaHasTheTrailerThatSaysWhen) {
  v1::StatRequest request;
  request.set_namespace_(kNamespace);
  Write("policy",
        absl::StrCat(kPolicy, "quotas { callers: \"token:pusher\" max_bytes: ",
                     request.ByteSizeLong(), " }"));
  Start(Options());
  ASSERT_OK(Call(channel_, Method::kCreateNamespace, "admin"));
  OpenInitStream open(*stub_, "pusher");

  EXPECT_TRUE(Becomes([&] {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer pusher");
    v1::StatResponse reply;
    if (stub_->Stat(&context, request, &reply).error_code() !=
        grpc::RESOURCE_EXHAUSTED) {
      return false;
    }
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto delay = trailers.find("grpc-retry-pushback-ms");
    return delay != trailers.end() && delay->second == "100";
  }));

  open.Cancel();
}

}  // namespace secure_server_test
}  // namespace tensorkv

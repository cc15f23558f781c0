#include "client/client.h"

#include <cmath>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/answer.h"
#include "client/call_threads.h"
#include "client/compression/cast.h"
#include "client/prometheus/client_metrics.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/client/fake_service.h"
#include "tests/client/scripted_client.h"
#include "tests/client/scripted_connection.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::DestinationOf;
using ::tensorkv::testing::EncodeAll;
using ::tensorkv::testing::FakeService;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::Script;
using ::tensorkv::testing::ScriptedConnection;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::Vector;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNull;

using ClientTest = testing::ScriptedClientTest;

TEST_F(ClientTest, InitNamesNamespaceKeyAndPolicy) {
  Client client = MakeClient({.name_space = "n"});

  ASSERT_OK(client.Init("w", Full({2}, 1), OnExisting::kKeep));

  EXPECT_EQ(script_.last<InitRequest>().name_space, "n");
  EXPECT_EQ(script_.last<InitRequest>().on_existing, OnExisting::kKeep);
  ASSERT_EQ(script_.last<InitRequest>().entries.size(), 1);
  EXPECT_EQ(script_.last<InitRequest>().entries[0].key, "w");
}

TEST_F(ClientTest, StatesAreNamedByKeyAndState) {
  Client client = MakeWorker();
  script_.reply<SetStateRequest>().versions = {7};
  script_.reply<GetStateRequest>().values = {{7, Full({2}, 3)}};

  ASSERT_OK(client.SetState("w", "momentum", Full({2}, 1)));
  ASSERT_OK_AND_ASSIGN(const Value state, client.GetState("w", "momentum"));

  const SetStateRequest& set = script_.last<SetStateRequest>();
  EXPECT_EQ(set.name_space, "n");
  ASSERT_EQ(set.entries.size(), 1);
  EXPECT_EQ(set.entries[0].key, "w");
  EXPECT_EQ(set.entries[0].state, "momentum");
  const GetStateRequest& get = script_.last<GetStateRequest>();
  EXPECT_EQ(get.name_space, "n");
  ASSERT_EQ(get.entries.size(), 1);
  EXPECT_EQ(get.entries[0].state, "momentum");
  EXPECT_EQ(state.version, 7u);
  std::vector<Version> versions;
  ASSERT_OK(client.SetState({{"w", "momentum", Full({2}, 1)}}, &versions));
  EXPECT_THAT(versions, ElementsAre(7u));
}

TEST_F(ClientTest, ClientWithAnotherTimeoutSharesTheSteps) {
  Client client = MakeWorker();
  AnswerPushes();

  ASSERT_OK(client.WithTimeout(absl::Seconds(1)).Push("w", Full({2}, 1)));
  ASSERT_OK(client.Push("w", Full({2}, 1)));

  EXPECT_THAT(script_.timeouts,
              ElementsAre(absl::Seconds(1), absl::Seconds(30)));
  EXPECT_EQ(script_.last<PushRequest>().step, 2u);
}

TEST_F(ClientTest, CallsGetTheCanceller) {
  const auto canceller = std::make_shared<Canceller>();
  const Client client = MakeClient({});
  Client cancellable =
      client.WithCanceller(canceller).WithTimeout(absl::Seconds(1));

  ASSERT_OK(cancellable.ListNamespaces());

  EXPECT_EQ(script_.cancellers.back(), canceller);
}

TEST_F(ClientTest, NothingIsEncodedOnceTheCallerHasCancelled) {
  const auto canceller = std::make_shared<Canceller>();
  Client client = MakeClient({}).WithCanceller(canceller);
  client.SetCompression(EncodeAll("2bit:0.5"));
  canceller->Cancel();

  EXPECT_THAT(
      client.Encode(/*step=*/1, {{.key = "w", .tensor = Full({8}, 0.4)}}),
      StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(ClientTest, MembershipOutlivesTheCanceller) {
  Client client = MakeWorker();
  Client cancellable = client.WithCanceller(std::make_shared<Canceller>());

  ASSERT_OK(cancellable.KeepAlive(absl::Seconds(1)));
  ASSERT_OK(cancellable.Leave(absl::Seconds(1)));

  EXPECT_THAT(script_.cancellers, ElementsAre(IsNull(), IsNull()));
}

TEST_F(ClientTest, LeaveThatIsNotRememberedIsMadeWithoutAName) {
  for (const absl::Status& second :
       {absl::OkStatus(), testing::StatusOfReason(Reason::kNotMember, "")}) {
    script_.statuses = {absl::ResourceExhaustedError("full"), second};
    Client client = MakeWorker();
    EXPECT_OK(client.Leave(absl::Seconds(1)));
    EXPECT_FALSE(script_.last<LeaveRequest>().has_call_id() || client.worker());
  }
  EXPECT_EQ(script_.verbs.size(), 4u);
}

TEST_F(ClientTest, CompressionCanBeSetAndUnset) {
  AnswerPushes();
  Client client = MakeClient({});
  for (const char* compression : {"2bit:0.5", "none"}) {
    client.SetCompression(EncodeAll(compression));

    ASSERT_OK(client.Push("w", Full({8}, 0.4)));

    const PushEntry& pushed = script_.last<PushRequest>().entries[0];
    EXPECT_EQ(bool{pushed.encoding}, compression[0] == '2');
    EXPECT_EQ(pushed.tensor.size_bytes(), pushed.encoding ? 2 : 32);
  }
}

TEST_F(ClientTest, RowsAreEncodedUnlessTheyAreAlready) {
  script_.reply<PushRowsRequest>().results.resize(1);
  Client client = MakeClient({});
  client.SetCompression(EncodeAll("f16"));
  const RefPtr<const RowIds> ids =
      *RowIds::Create(testing::Vector({1}, DType::kI64));
  for (const bool is_encoded : {false, true}) {
    ASSERT_OK(client.PushRows("w", ids, Full({1, 8}, 0.4),
                              {.is_encoded = is_encoded}));
    EXPECT_EQ(script_.last<PushRowsRequest>().entries[0].dtype(),
              is_encoded ? DType::kF32 : DType::kF16);
  }
}

// Casts what is pushed, as one that sends it does.
class CastingConnection final : public Connection {
 public:
  // `found` gets what was left out before, push by push.
  CastingConnection(Script& script, std::vector<float>& found)
      : inner_(script), found_(found) {}

  bool CastsAsItSends() const override { return true; }

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override {
    call.Visit([&]<typename Request>(const Request& request, auto&) {
      if constexpr (std::is_base_of_v<PushRequest, Request>) {
        const SendCast cast = options.casts.at(0);
        found_.push_back(cast.feedback->before[0]);
        EXPECT_OK(Cast(request.entries[0].tensor, cast, *memory_));
      }
    });
    return inner_.Attempt(call, options);
  }

 private:
  ScriptedConnection inner_;
  std::vector<float>& found_;
  const RefPtr<BufferPool> memory_ = MakeRefCounted<BufferPool>(0);
};

// What is left out before the second of two pushes, the first of which ends
// with that status or with an answer of no use.
class CastingClientTest : public ClientTest {
 protected:
  CastingClientTest() { client_.SetCompression(EncodeAll("f16,feedback")); }

  float FoundAfterPush(const absl::Status& status) {
    script_.reply<PushRequest>().results.resize(1);
    return FoundAfter(status, [&](const Client& client) {
      return Client(client).Push("w", tensor_).status();
    });
  }
  float FoundAfterPushPull(const absl::Status& status) {
    script_.reply<PushPullRequest>().values.resize(1);
    return FoundAfter(status, [&](const Client& client) {
      return Client(client).PushPull("w", tensor_).status();
    });
  }
  template <typename Push>
  float FoundAfter(const absl::Status& status, Push push) {
    client_.ForgetResiduals();
    script_.statuses = {status};
    EXPECT_EQ(push(client_).code(), status.code());
    (void)push(client_);
    return found_.back();
  }

  const float left_ = 1.0001f - 1.0f;
  const Tensor tensor_ = Full({2}, 1.0001);
  std::vector<float> found_;
  Client client_{std::make_unique<CastingConnection>(script_, found_),
                 ClientOptions()};
};

TEST_F(CastingClientTest, WhatIsLeftOutCountsOnceHoweverThePushEnds) {
  for (const absl::Status& status :
       {absl::OkStatus(), absl::CancelledError(), absl::UnavailableError(""),
        absl::DeadlineExceededError(""), absl::InternalError(""),
        absl::UnknownError(""),
        WithReason(absl::FailedPreconditionError(""),
                   Reason::kOutcomeUnknown)}) {
    EXPECT_EQ(FoundAfterPush(status), left_) << status;
    EXPECT_EQ(FoundAfterPushPull(status), left_) << status;
  }
  for (const absl::Status& status :
       {absl::InvalidArgumentError(""), absl::FailedPreconditionError(""),
        absl::PermissionDeniedError(""), absl::AbortedError("")}) {
    EXPECT_EQ(FoundAfterPush(status), 0) << status;
    EXPECT_EQ(FoundAfterPushPull(status), 0) << status;
  }
  // A PushPull may have pushed, and then lack its key, or room for its value.
  for (const absl::Status& status :
       {absl::NotFoundError(""), absl::ResourceExhaustedError("")}) {
    EXPECT_EQ(FoundAfterPush(status), 0) << status;
    EXPECT_EQ(FoundAfterPushPull(status), left_) << status;
  }
}

TEST_F(CastingClientTest, WhatIsLeftOutCountsThoughTheReplyIsOfNoUse) {
  script_.reply<PushPullRequest>().values.assign(1, {1, Full({3}, 1)});
  std::vector<float> memory(2);
  const Destination destination = DestinationOf(memory);
  Client into = client_.Into({&destination, 1});

  EXPECT_THAT(into.PushPull("w", tensor_),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(into.PushPull("w", tensor_).ok());

  EXPECT_EQ(found_.back(), left_);
}

// A way to push "w", and the request that it makes.
struct WayToPush {
  const char* name;
  absl::Status (*push)(Client client, const Tensor& tensor);
  PushRequest (*last)(Script& script);
};

template <typename Request>
PushRequest LastOf(Script& script) {
  return script.last<Request>();
}

// What Client::StartPush or StartPushPull tells.
template <typename Reply, typename Start>
absl::Status OutcomeOf(Start start) {
  const Answer<absl::Status> outcome;
  CallThreads threads(1);
  start(threads, [outcome](absl::StatusOr<Reply> reply) {
    outcome.Set(reply.status());
  });
  return outcome.Wait();
}

constexpr WayToPush kWaysToPush[] = {
    {"Push",
     [](Client client, const Tensor& tensor) {
       return client.Push("w", tensor).status();
     },
     LastOf<PushRequest>},
    {"PushPull",
     [](Client client, const Tensor& tensor) {
       return client.PushPull("w", tensor).status();
     },
     LastOf<PushPullRequest>},
    {"StartPush",
     [](Client client, const Tensor& tensor) {
       return OutcomeOf<PushReply>([&](CallThreads& threads, auto done) {
         client.StartPush({{.key = "w", .tensor = tensor}}, {}, threads,
                          std::move(done));
       });
     },
     LastOf<PushRequest>},
    {"StartPushPull",
     [](Client client, const Tensor& tensor) {
       return OutcomeOf<PullReply>([&](CallThreads& threads, auto done) {
         client.StartPushPull({{.key = "w", .tensor = tensor}}, {}, threads,
                              std::move(done));
       });
     },
     LastOf<PushPullRequest>},
};

// What was left out before the push, and what the push brings, is all there
// when it is pushed again.
class RefusedPushTest : public ClientTest {
 protected:
  RefusedPushTest() {
    AnswerPushes();
    script_.reply<PushPullRequest>().values.resize(1);
  }

  Client Encoding(absl::string_view compression) {
    Client client = MakeClient({});
    client.SetCompression(EncodeAll(compression));
    return client;
  }

  // The bytes that the second of two pushes sends, before which one is tried
  // that ends with `status`.
  std::string SentAfter(const WayToPush& way, absl::string_view compression,
                        const absl::Status& status) {
    const Client client = Encoding(compression);
    EXPECT_OK(way.push(client, first_));
    if (!status.ok()) {
      script_.statuses = {status};
      EXPECT_EQ(way.push(client, second_).code(), status.code());
    }
    EXPECT_OK(way.push(client, second_));
    return BytesOf(way.last(script_).entries[0].tensor);
  }

  const Tensor first_ = Vector({0.9, -0.3, 2.5, 0.1, -0.7, 0.2, 0.4, 1.1});
  const Tensor second_ = Vector({0.8, 0.3, -2.1, 0.2, 0.7, -0.1, 0.3, 0.6});
};

TEST_F(RefusedPushTest, IsEncodedAgainAsIfItHadNotBeenTried) {
  for (const WayToPush& way : kWaysToPush) {
    for (const char* compression :
         {"2bit:0.5", "1bit:0.1", "sign", "topk:0.25", "randomk:0.25",
          "dithering:4", "i8:4", "f8e4m3fn", "f16,feedback",
          "topk:0.25,momentum=0.9", "2bit,no-feedback,momentum=0.5"}) {
      EXPECT_EQ(SentAfter(way, compression, absl::AbortedError("")),
                SentAfter(way, compression, absl::OkStatus()))
          << way.name << " of " << compression;
    }
  }
}

TEST_F(RefusedPushTest, WhatMayHaveBeenMadeCountsAsMade) {
  for (const WayToPush& way : kWaysToPush) {
    const std::string made = SentAfter(way, "2bit:0.5", absl::OkStatus());
    for (const absl::Status& status :
         {absl::UnavailableError(""), absl::DeadlineExceededError("")}) {
      EXPECT_NE(SentAfter(way, "2bit:0.5", status), made) << way.name;
    }
  }
}

TEST_F(RefusedPushTest, PushWhoseReplyIsOfNoUseCountsAsMade) {
  script_.reply<PushPullRequest>().values.assign(1, {1, Full({3}, 1)});
  std::vector<float> memory(8);
  const Destination destination = DestinationOf(memory);
  for (const WayToPush& way : {kWaysToPush[1], kWaysToPush[3]}) {
    Client client = Encoding("2bit:0.5");
    const Client into = client.Into({&destination, 1});
    EXPECT_THAT(way.push(into, first_),
                StatusIs(absl::StatusCode::kInvalidArgument));

    EXPECT_FALSE(way.push(into, second_).ok());

    const std::string sent = BytesOf(way.last(script_).entries[0].tensor);
    EXPECT_EQ(sent, SentAfter(kWaysToPush[0], "2bit:0.5", absl::OkStatus()))
        << way.name;
  }
}

TEST_F(ClientTest, JoinMakesTheClientAWorker) {
  AnswerPushes();
  script_.reply<JoinRequest>() =
      testing::JoinedAs({.rank = 3, .epoch = 9}, /*next_step=*/13);
  Client client = MakeClient({.name_space = "n"});

  ASSERT_OK(client.Join("w3", absl::Seconds(5)));
  ASSERT_OK(client.Push("w", Full({2}, 1)));

  EXPECT_EQ(script_.last<JoinRequest>().worker_name(), "w3");
  EXPECT_EQ(script_.last<PushRequest>().worker->rank, 3u);
  EXPECT_EQ(script_.last<PushRequest>().worker->epoch, 9u);
  EXPECT_EQ(script_.last<PushRequest>().step, 13u);
}

TEST_F(ClientTest, MembershipVerbsNeedAWorker) {
  Client client = MakeClient({});

  EXPECT_THAT(client.KeepAlive(absl::Seconds(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(client.Leave(absl::Seconds(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(client.Barrier("b"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(script_.verbs.empty());
}

TEST_F(ClientTest, PushesOfAWorkerCountStepsThatWereMade) {
  AnswerPushes();
  script_.reply<PushPullRequest>().values = {{5, Full({2}, 1)}};
  script_.statuses = {absl::InvalidArgumentError("")};
  Client client = MakeWorker();
  const Tensor ones = Full({2}, 1);

  EXPECT_THAT(client.Push("w", ones),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(client.step(), 0);
  ASSERT_OK(client.Push("w", ones));
  EXPECT_EQ(script_.last<PushRequest>().worker->rank, 2u);
  EXPECT_EQ(script_.last<PushRequest>().step, 1u);
  ASSERT_OK(client.PushPull("w", ones));
  EXPECT_EQ(client.step(), 2u);
  ASSERT_OK(client.Push("w", ones, {.step = 7}));
  EXPECT_EQ(script_.last<PushRequest>().step, 7u);
  ASSERT_OK(client.Push("w", ones));
  EXPECT_EQ(client.step(), 8u);
  client.set_step(41);
  ASSERT_OK(client.Push("w", ones));
  EXPECT_EQ(script_.last<PushRequest>().step, 42u);
}

TEST_F(ClientTest, PushOfNobodyInParticularHasNoStep) {
  AnswerPushes();
  Client client = MakeClient({});

  ASSERT_OK(client.Push("w", Full({2}, 1)));

  EXPECT_FALSE(script_.last<PushRequest>().worker.has_value());
  EXPECT_EQ(script_.last<PushRequest>().step, 0);
}

TEST_F(ClientTest, PullNamesWorkerAndMinVersion) {
  script_.reply<PullRequest>().values.resize(1);
  Client client = MakeWorker();

  ASSERT_OK(client.Pull("w", 9));

  EXPECT_EQ(script_.last<PullRequest>().name_space, "n");
  EXPECT_EQ(script_.last<PullRequest>().worker->rank, 2);
  ASSERT_EQ(script_.last<PullRequest>().entries.size(), 1);
  EXPECT_EQ(script_.last<PullRequest>().entries[0].min_version, 9);
}

TEST_F(ClientTest, PullOfManyKeysKeepsTheirOrder) {
  script_.reply<PullRequest>().values.resize(2);
  Client client = MakeClient({});
  const std::vector<std::string> keys = {"b", "a"};

  ASSERT_OK(client.Pull(keys));

  ASSERT_EQ(script_.last<PullRequest>().entries.size(), 2);
  EXPECT_EQ(script_.last<PullRequest>().entries[0].key, "b");
  EXPECT_EQ(script_.last<PullRequest>().entries[1].key, "a");
}

TEST_F(ClientTest, BroadcastIsInitWithKeepAndPull) {
  script_.reply<PullRequest>().values.resize(1);
  Client client = MakeClient({});

  ASSERT_OK(client.Broadcast({{"w", Full({2}, 1)}}));

  EXPECT_THAT(script_.verbs, ElementsAre("Init", "Pull"));
  EXPECT_EQ(script_.last<InitRequest>().on_existing, OnExisting::kKeep);
  EXPECT_EQ(script_.last<PullRequest>().entries.at(0).key, "w");
}

TEST_F(ClientTest, BroadcastThatCannotInitDoesNotPull) {
  script_.statuses = {absl::FailedPreconditionError("shape")};
  Client client = MakeClient({});

  EXPECT_THAT(client.Broadcast({{"w", Full({2}, 1)}}),
              StatusIs(absl::StatusCode::kFailedPrecondition));

  EXPECT_THAT(script_.verbs, ElementsAre("Init"));
}

TEST(ClientConnectTest, OptionsThatCannotWorkAreInvalid) {
  EXPECT_THAT(
      Client::Connect({.target = ""}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("target")));
  EXPECT_THAT(Client::Connect({.name_space = std::string(257, 'n')}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("at most 256 bytes, got 257")));
  EXPECT_THAT(Client::Connect({.name_space = "a\nb"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("control characters")));
  EXPECT_THAT(
      Client::Connect({.timeout = absl::ZeroDuration()}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("timeout")));
  EXPECT_THAT(Client::Connect({.max_message_bytes = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_message_bytes")));
  EXPECT_THAT(Client::Connect({.transfer = {.bulk_connections = 65}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("bulk_connections")));
}

TEST(ClientConnectTest, ConnectedClientCallsItsServerAndCounts) {
  FakeService service;
  auto registry = std::make_shared<prometheus::Registry>();
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Client> client,
      Client::Connect({.target = service.Start(),
                       .observer = std::make_shared<ClientMetrics>(registry)}));

  EXPECT_THAT(client->DescribeServer(), IsOk());

  EXPECT_THAT(service.rpcs(), ElementsAre("DescribeServer"));
  EXPECT_FALSE(registry->Collect().empty());
}

TEST(ClientConnectTest, PushesAreCastOnTheirWay) {
  FakeService service;
  service.push_response.add_results();
  const Compression f16 = *Compression::Parse("f16");
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Client> client,
      Client::Connect({.target = service.Start(),
                       .compression = {.rules = {{"", f16}}, .min_bytes = 0},
                       .observer = std::make_shared<ClientMetrics>(
                           std::make_shared<prometheus::Registry>())}));

  EXPECT_THAT(client->Push("w", Full({8}, NAN)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("key \"w\": compression: expected finite")));
  EXPECT_THAT(service.rpcs(), IsEmpty());
  ASSERT_OK(client->Push("w", Full({8}, 0.1)));

  const v1::Tensor& pushed = service.push_request.entries(0).tensor();
  EXPECT_EQ(pushed.dtype(), v1::DTYPE_F16);
  EXPECT_EQ(pushed.data().size(), 16);
}

TEST(ClientConnectTest, PushToNoServerIsUnavailable) {
  FakeService service;
  const std::string target = service.Start();
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Client> client,
      Client::Connect({.target = target, .timeout = absl::Milliseconds(500)}));
  service.Stop();

  EXPECT_THAT(
      client->Push("w", Full({1}, 1)),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Push to " + target)));
}

}  // namespace
}  // namespace tensorkv

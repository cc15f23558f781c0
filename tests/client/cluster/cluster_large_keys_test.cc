#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/client.h"
#include "client/cluster/cluster_connection.h"
#include "client/internal/transfer/grpc_connection.h"
#include "client/local/local_connection.h"
#include "client/worker_client.h"
#include "contract/reason.h"
#include "contract/retry_delay.h"
#include "contract/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cluster/test_cluster.h"
#include "tests/contracts/caller.h"
#include "tests/testing/background.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Background;
using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::Caller;
using ::tensorkv::testing::ElementsOf;
using ::tensorkv::testing::Full;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::HasTensor;
using ::tensorkv::testing::IsFilledWith;
using ::tensorkv::testing::IsOk;
using ::tensorkv::testing::IsOkAndHolds;
using ::tensorkv::testing::StatusIs;
using ::tensorkv::testing::TestCluster;
using ::tensorkv::testing::Vector;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// 1.2 MB: four slices.
const Shape kLarge = {301, 1000};
constexpr uint64_t kSplitBytes = 1 << 19;

Tensor RandomOf(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  Tensor tensor = Tensor::Allocate(DType::kF32, shape).value();
  for (float& element : tensor.mutable_elements<float>()) {
    element = static_cast<float>(random() % 1000) / 8 - 60;
  }
  return tensor;
}

RefPtr<const RowIds> RandomRows(std::mt19937& random) {
  const auto num_rows = static_cast<int64_t>(1 + random() % 9);
  Tensor ids = Tensor::Allocate(DType::kI64, {num_rows}).value();
  for (int64_t& id : ids.mutable_elements<int64_t>()) id = random() % 301;
  return RowIds::Create(std::move(ids)).value();
}

// What a call was answered, but for versions, in a text that stands for it.
template <typename Reply>
std::string TextOf(const absl::StatusOr<Reply>& reply) {
  std::string text = absl::StatusCodeToString(reply.status().code());
  if (!reply.ok()) return text;
  if constexpr (requires { reply->values; }) {
    for (const Value& value : reply->values) {
      absl::StrAppend(&text, " ", value.tensor.Description(), " ",
                      std::hash<std::string>()(BytesOf(value.tensor)));
    }
  }
  return text;
}

// One call over a small and a large key, of those that `random` draws.
std::string RandomCall(const Caller& store, std::mt19937 random) {
  const uint32_t seed = random();
  const std::vector<PushEntry> pushes = {
      {.key = "small", .tensor = RandomOf({2}, seed)},
      {.key = "large", .tensor = RandomOf(kLarge, seed + 1)}};
  const auto rows = RandomRows(random);
  switch (random() % 7) {
    case 0:
      return TextOf(store.PushMany(pushes));
    case 1:
      return TextOf(store.PushPullMany(pushes));
    case 2:
      return TextOf(store.PullAs(DType::kBF16, {{"large"}, {"small"}}));
    case 3:
      return TextOf(
          store.PushRows({{.key = "large",
                           .tensor = RandomOf({rows->size(), 1000}, seed),
                           .rows = rows,
                           .update_all_rows = seed % 2 == 0}}));
    case 4:
      return TextOf(store.PullRows({{.key = "large", .rows = rows}}));
    case 5:
      return TextOf(
          store.SetStates({{"large", "momentum", RandomOf(kLarge, seed)},
                           {"small", "momentum", RandomOf({2}, seed + 1)}}));
    default:
      return TextOf(
          store.GetStates({{"large", "momentum"}, {"small", "momentum"}}));
  }
}

TEST(ClusterLargeKeysTest, AnswersAsOneStoreDoes) {
  const TestCluster cluster(3, kSplitBytes);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  LocalConnection one;
  const Caller store(*connection, "train");
  const Caller oracle(one, "train");
  for (const Caller* caller : {&store, &oracle}) {
    ASSERT_THAT(
        caller->Create({.rule = ParseRuleSpec("sgd(momentum=0.5)").value()}),
        IsOk());
    ASSERT_THAT(caller->InitMany({{"small", RandomOf({2}, 1)},
                                  {"large", RandomOf(kLarge, 2)}}),
                IsOk());
  }
  std::mt19937 random(5);
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(RandomCall(store, random), RandomCall(oracle, random)) << i;
    random.discard(7);
  }
  EXPECT_EQ(TextOf(store.PullMany({{"large"}, {"small"}})),
            TextOf(oracle.PullMany({{"large"}, {"small"}})));
}

TEST(ClusterLargeKeysTest, ListAndStatShowOneKey) {
  const TestCluster cluster(3, kSplitBytes);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "");
  for (const char* const key : {"a", "c", "d"}) {
    ASSERT_THAT(store.Init(key, Full({1}, 1)), IsOk());
  }
  // After the last of these pages have nothing but keys in slices.
  for (const char* const key : {"b", "e", "f", "g", "h", "i"}) {
    ASSERT_THAT(store.Init(key, Full(kLarge, 1)), IsOk());
  }

  const absl::StatusOr<KeyStatus> status = store.Stat("b", true);
  ASSERT_THAT(status, IsOk());
  EXPECT_EQ(status->key(), "b");
  EXPECT_THAT(ShapeOf(*status), IsOkAndHolds(kLarge));
  EXPECT_EQ(status->value_bytes(), 4u * kLarge.num_elements());
  EXPECT_FALSE(status->has_digest());
  for (const uint32_t page_size : {0u, 1u, 2u, 3u}) {
    std::string listed, token;
    do {
      const absl::StatusOr<ListReply> page = store.List("", page_size, token);
      ASSERT_THAT(page, IsOk());
      for (const KeyStatus& key : page->keys()) listed += key.key();
      token = page->next_page_token();
    } while (!token.empty());
    EXPECT_EQ(listed, "abcdefghi") << page_size;
  }
  EXPECT_EQ(store.List("b")->keys_size(), 1);
}

// Such as one whose Init broke off, or that goes while it is listed.
TEST(ClusterLargeKeysTest, ListPassesOverAKeyThatLacksSlices) {
  const TestCluster cluster(2, kSplitBytes);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "");
  for (const char* const key : {"a", "b", "d"}) {
    ASSERT_THAT(store.Init(key, Full(kLarge, 1)), IsOk());
  }
  ASSERT_THAT(store.Init("c", Full({1}, 1)), IsOk());
  ASSERT_THAT(store.Delete({SliceNameOf("b", 3, 4, kLarge.dimensions())}),
              IsOk());

  const absl::StatusOr<ListReply> page = store.List("");

  ASSERT_THAT(page, IsOk());
  std::string listed;
  for (const KeyStatus& key : page->keys()) listed += key.key();
  EXPECT_EQ(listed, "acd");
}

TEST(ClusterLargeKeysTest, KeyThatExistsIsCreatedAsOnOneStore) {
  const TestCluster cluster(2, kSplitBytes);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "");
  ASSERT_THAT(store.Init("w", Full(kLarge, 1)), IsOk());

  const absl::Status exists = store.Init("w", Full(kLarge, 2)).status();
  EXPECT_THAT(exists, HasReason(Reason::kKeyExists));
  EXPECT_THAT(exists.message(), HasSubstr("\"w\""));
  EXPECT_EQ(ErrorInfoOf(exists)->metadata["key"], "w");
  EXPECT_THAT(store.Init("w", Full({2}, 2)), HasReason(Reason::kKeyExists));
  EXPECT_THAT(store.Init("w", Full(kLarge, 2), OnExisting::kKeep), IsOk());
  EXPECT_THAT(store.Init("w", Full({2}, 2), OnExisting::kKeep),
              HasReason(Reason::kExistsDifferently));
  EXPECT_THAT(store.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(1))));

  // From slices to a whole key and back.
  EXPECT_THAT(store.Init("w", Full({2}, 3), OnExisting::kReplace), IsOk());
  EXPECT_EQ(store.Pull("w")->tensor.shape(), Shape({2}));
  EXPECT_THAT(store.Init("w", Full(kLarge, 4), OnExisting::kReplace), IsOk());
  EXPECT_THAT(store.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(4))));
  EXPECT_EQ(store.List()->keys_size(), 1);
}

TEST(ClusterLargeKeysTest, DeleteCountsKeys) {
  const TestCluster cluster(2, kSplitBytes);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "");
  ASSERT_THAT(store.Init("w", Full(kLarge, 1)), IsOk());
  ASSERT_THAT(store.Init("b", Full({1}, 1)), IsOk());

  EXPECT_THAT(store.Delete({"w", "b", "none"}, true), IsOkAndHolds(2u));

  EXPECT_THAT(store.Pull("w"), HasReason(Reason::kKeyNotFound));
  EXPECT_EQ(store.Describe()->num_keys(), 0u);
}

TEST(ClusterLargeKeysTest, OtherClientsFindWhatOneHasChanged) {
  const TestCluster cluster(2, kSplitBytes);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const std::unique_ptr<Connection> of_other = cluster.Connect();
  const Caller store(*connection, "");
  const Caller other(*of_other, "");
  EXPECT_THAT(other.Pull("w"), HasReason(Reason::kKeyNotFound));

  ASSERT_THAT(store.Init("w", Full(kLarge, 1)), IsOk());
  EXPECT_THAT(other.Push("w", Full(kLarge, 2)), IsOk());
  ASSERT_THAT(store.Init("v", Full(kLarge, 1)), IsOk());
  EXPECT_THAT(other.Pull("v"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  ASSERT_THAT(store.Init("v", Full({2}, 3), OnExisting::kReplace), IsOk());
  EXPECT_THAT(other.Pull("v"), IsOkAndHolds(HasTensor(IsFilledWith(3))));
  ASSERT_THAT(store.Init("rows", Full(kLarge, 1)), IsOk());
  EXPECT_THAT(
      other.PushRows(
          {{.key = "rows",
            .tensor = Full({1, 1000}, 5),
            .rows = RowIds::Create(Full({1}, 300, DType::kI64)).value()}}),
      IsOk());
}

TEST(ClusterLargeKeysTest, ValuesComeIntoMemoryOfTheCaller) {
  const TestCluster cluster(2, kSplitBytes);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  ASSERT_THAT(Caller(*connection, "").Init("w", Full(kLarge, 1)), IsOk());
  Tensor memory = Full(kLarge, 0);
  const Destination destination = {
      DType::kF32, kLarge,
      absl::MakeSpan(memory.mutable_data(), memory.size_bytes())};

  const auto reply =
      connection->Call(PullRequest{.entries = {{.key = "w"}}},
                       {.destinations = absl::MakeConstSpan(&destination, 1)});

  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->values[0].tensor.data(), memory.data());
  EXPECT_THAT(memory, IsFilledWith(1));
}

TEST(ClusterLargeKeysTest, RulesThatTakeNormsTakeWholeKeys) {
  const TestCluster cluster(3, kSplitBytes);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "n");
  ASSERT_THAT(store.Create({}), IsOk());
  ASSERT_THAT(store.Init("w.cut", Full(kLarge, 1)), IsOk());

  EXPECT_THAT(
      store.SetRule("lamb", "w.*"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"w.cut\"")));
  EXPECT_THAT(store.SetRule("sgd(learning_rate=1)", "w.*"), IsOk());
  ASSERT_THAT(store.Push("w.cut", Full(kLarge, 1)), IsOk());
  EXPECT_THAT(store.Pull("w.cut"), IsOkAndHolds(HasTensor(IsFilledWith(0))));
  EXPECT_THAT(store.SetRule("lamb", "v.*"), IsOk());
  EXPECT_THAT(store.Init("v.whole", Full(kLarge, 1)), IsOk());
  EXPECT_THAT(store.Push("v.whole", Full(kLarge, 1)), IsOk());
}

// The home would take the rule, as it has no slice.
TEST(ClusterLargeKeysTest, RefusedRuleIsOnNoServer) {
  const TestCluster cluster(3, kSplitBytes);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller store(*connection, "n");
  ASSERT_THAT(store.Create({}), IsOk());
  const Tensor two_rows = Full({2, 100'000}, 1);
  for (int i = 0; i < 8; ++i) {
    ASSERT_THAT(store.Init(absl::StrCat("k", i), two_rows), IsOk());
    EXPECT_THAT(store.SetRule("lamb", absl::StrCat("k", i)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }

  for (size_t i = 0; i < 3; ++i) {
    const std::unique_ptr<Connection> one = cluster.ConnectToOne(i);
    EXPECT_THAT(Caller(*one, "n").Describe()->rules(), SizeIs(1))
        << "the default";
  }
}

// Values that take longer to receive than a call offers never come.
class SlowValues final : public Connection {
 public:
  static constexpr absl::Duration kTransfer = absl::Seconds(2);

  explicit SlowValues(std::unique_ptr<Connection> inner,
                      std::atomic<int>* num_transfers,
                      absl::Notification* waits)
      : inner_(std::move(inner)),
        num_transfers_(*num_transfers),
        waits_(*waits) {}

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override {
    if (call.method() == Method::kPullRows && !waits_.HasBeenNotified()) {
      waits_.Notify();
    }
    if (call.method() == Method::kPull) {
      ++num_transfers_;
      if (options.timeout < kTransfer) {
        return absl::DeadlineExceededError("the values have not come");
      }
    }
    return inner_->Attempt(call, options);
  }

 private:
  const std::unique_ptr<Connection> inner_;
  std::atomic<int>& num_transfers_;
  absl::Notification& waits_;
};

class SlowTransferTest : public ::testing::Test {
 protected:
  std::unique_ptr<Connection> Connect() {
    const auto connect = [this](const std::string& address,
                                std::shared_ptr<ServerIncarnation> known)
        -> absl::StatusOr<std::unique_ptr<Connection>> {
      auto connection = GrpcConnection::Create(
          {.target = address, .server = std::move(known)});
      return std::make_unique<SlowValues>(*std::move(connection),
                                          &num_transfers_, &waits_);
    };
    return std::make_unique<ClusterConnection>(ClusterServersOptions{
        .addresses = {cluster_.address(0)}, .connect = connect});
  }

  const TestCluster cluster_{2, kSplitBytes};
  std::atomic<int> num_transfers_ = 0;
  // A call waits for a key.
  absl::Notification waits_;
  const std::unique_ptr<Connection> plain_ = cluster_.Connect();
  const std::unique_ptr<Connection> slow_ = Connect();
  const Caller others_ = Caller(*plain_, "");
  const Caller store_ = Caller(*slow_, "").WithTimeout(absl::Seconds(4));
};

TEST_F(SlowTransferTest, WaitForKeysDoesNotCutTheTransfer) {
  ASSERT_THAT(others_.Init("small", Full({2}, 1)), IsOk());
  ASSERT_THAT(others_.Init("large", Full(kLarge, 2)), IsOk());

  EXPECT_THAT(store_.Await("small"), IsOkAndHolds(HasTensor(IsFilledWith(1))));
  EXPECT_EQ(num_transfers_, 1);
  EXPECT_THAT(store_.Await("large"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
  EXPECT_EQ(num_transfers_, 3) << "one at each server";
}

// Nor do values come that a key is missing beside.
TEST_F(SlowTransferTest, ValuesComeOnceAllKeysAreThere) {
  ASSERT_THAT(others_.Init("large", Full(kLarge, 2)), IsOk());
  Background pull([&] {
    return store_.WithTimeout(absl::Minutes(1))
        .PullMany({{"large"}, {"late"}}, /*wait_for_keys=*/true);
  });
  waits_.WaitForNotification();
  EXPECT_EQ(num_transfers_, 0);

  ASSERT_THAT(others_.Init("late", Full(kLarge, 3)), IsOk());

  const auto values = pull.Result();
  ASSERT_THAT(values, IsOk());
  EXPECT_THAT(values->values[1].tensor, IsFilledWith(3));
  EXPECT_EQ(num_transfers_, 2);
}

TEST_F(SlowTransferTest, WaitForKeysThatNeverComeEndsInTime) {
  EXPECT_THAT(store_.WithTimeout(absl::Milliseconds(200)).Await("never"),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(num_transfers_, 0);
}

// Answers what waits for keys itself.
class ImpatientConnection final : public Connection {
 public:
  ImpatientConnection(std::unique_ptr<Connection> inner,
                      std::function<absl::Status()> answer)
      : inner_(std::move(inner)), answer_(std::move(answer)) {}

  absl::Status Attempt(const AnyCall& call,
                       const CallOptions& options) override {
    if (call.method() != Method::kPullRows) {
      return inner_->Attempt(call, options);
    }
    return answer_();
  }

 private:
  const std::unique_ptr<Connection> inner_;
  const std::function<absl::Status()> answer_;
};

class RefusedWaitTest : public ::testing::Test {
 protected:
  // Returns how a wait for a key ends, to which that is the answer.
  absl::Status Await(std::function<absl::Status()> answer) {
    const auto connect = [&](const std::string& address,
                             std::shared_ptr<ServerIncarnation> known)
        -> absl::StatusOr<std::unique_ptr<Connection>> {
      return std::make_unique<ImpatientConnection>(
          *GrpcConnection::Create({.target = address, .server = known}),
          answer);
    };
    ClusterConnection connection(ClusterServersOptions{
        .addresses = {cluster_.address(0)}, .connect = connect});
    return Caller(connection, "").Await("late").status();
  }

  const TestCluster cluster_{2, kSplitBytes};
  const std::unique_ptr<Connection> plain_ = cluster_.Connect();
  int num_refusals_ = 0;
};

TEST_F(RefusedWaitTest, EndsForGood) {
  EXPECT_THAT(Await([&] {
                ++num_refusals_;
                return absl::PermissionDeniedError("no rows");
              }),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(num_refusals_, 1);
}

TEST_F(RefusedWaitTest, GoesOnWhereItMayBeMadeAgain) {
  EXPECT_THAT(Await([&] {
                ++num_refusals_;
                EXPECT_THAT(Caller(*plain_, "").Init("late", Full({1}, 1)),
                            IsOk());
                return WithRetryDelay(absl::ResourceExhaustedError("quota"),
                                      absl::Seconds(5));
              }),
              IsOk());
  EXPECT_EQ(num_refusals_, 1);
}

// Whoever knows a key as it was pushes to what it is now.
TEST(ClusterLargeKeysTest, PushGoesByTheNewestLayout) {
  const TestCluster cluster(2, kSplitBytes);
  const std::unique_ptr<Connection> ours = cluster.Connect();
  const std::unique_ptr<Connection> theirs = cluster.Connect();
  const Caller store(*ours, "");
  const Caller others(*theirs, "");
  const auto replace = [&](const Tensor& value) {
    ASSERT_THAT(others.Delete({"w"}, /*allow_missing=*/true), IsOk());
    ASSERT_THAT(others.Init("w", value), IsOk());
  };
  ASSERT_THAT(store.SetRule("accumulate"), IsOk());
  for (const char* const rule : {"accumulate", "lamb", "accumulate"}) {
    // A rule that takes whole keys keeps the next one whole.
    ASSERT_THAT(others.SetRule(rule, "other"), IsOk());
    replace(Full(kLarge, 1));

    EXPECT_THAT(store.Push("w", Full(kLarge, 1)), IsOk()) << rule;
    EXPECT_THAT(others.Pull("w"), IsOkAndHolds(HasTensor(IsFilledWith(2))));
  }
  replace(Full({2}, 1));
  EXPECT_THAT(store.Push("w", Full(kLarge, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ClusterLargeKeysTest, GradientGuardIsRefusedWhereAKeyIsInSlices) {
  const TestCluster cluster(2, kSplitBytes);
  const std::unique_ptr<Connection> ours = cluster.Connect();
  const std::unique_ptr<Connection> one = cluster.ConnectToOne(0);
  const GradientGuard guard = {.max_norm = 1};
  const Caller store(*ours, "");
  ASSERT_THAT(store.Init("w", Full(kLarge, 1)), IsOk());

  for (Connection* const connection : {ours.get(), one.get()}) {
    const Caller caller(*connection, "");
    EXPECT_THAT(caller.Update({.gradient_guard = guard}, {"gradient_guard"}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("key \"w\" in slices")));
  }

  EXPECT_THAT(store.Delete({"w"}), IsOk());
  EXPECT_THAT(store.Update({.gradient_guard = guard}, {"gradient_guard"}),
              IsOk());
}

// What a contribution weighs counts where it names no rows, too.
TEST(ClusterLargeKeysTest, MeansOfRowsAreThoseOfOneServer) {
  const TestCluster cluster(3, kSplitBytes);
  const std::unique_ptr<Connection> connection = cluster.Connect();
  const Caller sync = Caller(*connection, "").In("sync");
  ASSERT_THAT(sync.Create({.mode = Mode::kSync,
                           .num_workers = 2,
                           .aggregation = Aggregation::kMean}),
              IsOk());
  ASSERT_THAT(sync.Init("w", Full(kLarge, 9)), IsOk());
  const auto push = [&](uint32_t rank, double id, double weight) {
    return sync.As(rank).PushRows(
        {{.key = "w",
          .tensor = Full({1, 1000}, 8),
          .weight = weight,
          .rows = *RowIds::Create(Vector({id}, DType::kI64))}},
        1);
  };

  ASSERT_THAT(push(0, 0, 3), IsOk());
  ASSERT_THAT(push(1, 300, 1), IsOk());

  const absl::StatusOr<Value> value = sync.As(0).Pull("w");
  ASSERT_THAT(value, IsOk());
  const std::vector<double> elements = ElementsOf(value->tensor);
  EXPECT_EQ(elements.front(), 6);
  EXPECT_EQ(elements[1000], 9);
  EXPECT_EQ(elements.back(), 2);
}

TEST(ClusterLargeKeysTest, RoundsOfSlicesCloseTogether) {
  const TestCluster cluster(3, kSplitBytes);
  const ClientOptions options = {.target = cluster.target(),
                                 .name_space = "sync"};
  const auto client = Client::Connect(options).value();
  ASSERT_THAT(client->CreateNamespace(
                  "sync", {.mode = Mode::kSync,
                           .num_workers = 2,
                           .rule = ParseRuleSpec("accumulate").value()}),
              IsOk());
  ASSERT_THAT(client->Init("w", Full(kLarge, 0)), IsOk());
  const auto a = WorkerClient::Join(options, {.name = "a"}).value();
  const auto b = WorkerClient::Join(options, {.name = "b"}).value();
  const auto train = [](WorkerClient& worker) -> absl::Status {
    for (Step step = 1; step <= 4; ++step) {
      std::vector<PushEntry> entries = {{.key = "w", .skip = step == 2}};
      if (step != 2) entries[0].tensor = Full(kLarge, 1);
      const auto reply = worker.PushPull(step, entries);
      if (!reply.ok()) return reply.status();
    }
    return absl::OkStatus();
  };
  Background other([&] { return train(*a); });

  EXPECT_THAT(train(*b), IsOk());
  EXPECT_THAT(other.Result(), IsOk());
  const absl::StatusOr<Value> value = client->Pull("w");
  ASSERT_THAT(value, IsOk());
  EXPECT_THAT(value->tensor, IsFilledWith(6));
  EXPECT_EQ(value->version, 4u);
}

}  // namespace
}  // namespace tensorkv

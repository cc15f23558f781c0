// A namespace that several servers hold: the bits of one server, and what
// becomes of rounds when servers do not reach each other.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "client/compression/compressor.h"
#include "client/local/local_connection.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/contracts/caller.h"
#include "tests/service/mirror/mirror_network.h"
#include "tests/testing/background.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using testing::Background;
using testing::BytesOf;
using testing::Caller;
using testing::FakeGpu;
using testing::Fate;
using testing::Full;
using testing::HasReason;
using ::testing::HasSubstr;
using testing::MirrorNetwork;
using testing::StatusIs;
using testing::Vector;

constexpr char kSpace[] = "n";

struct TestKey {
  std::string name;
  std::string rule;
  DType dtype = DType::kF32;
  int64_t num_elements = 0;
};

// Some that are in slices, and some that are whole.
const TestKey kKeys[] = {
    {"sgd", "sgd(learning_rate=0.1,momentum=0.9)", DType::kF32, 12301},
    {"adam", "adam(learning_rate=0.01)", DType::kF32, 13000},
    {"bf16", "adam(learning_rate=0.01)", DType::kBF16, 12289},
    {"small", "accumulate", DType::kF32, 7},
    {"i32", "accumulate", DType::kI32, 30},
};

NamespaceConfig ConfigOf(uint32_t num_workers, bool mirrored) {
  NamespaceConfig config = {.mode = Mode::kSync, .num_workers = num_workers};
  config.mirrored = mirrored;
  return config;
}

// What the worker of that rank brings: the bits of the sum depend on its order.
Tensor GradientOf(const TestKey& key, uint32_t rank, Step step) {
  std::minstd_rand random(
      static_cast<uint32_t>(rank * 1000003 + step * 101 + key.name.size()));
  std::vector<double> elements(key.num_elements);
  for (double& element : elements) {
    const int exponent = static_cast<int>(random() % 12);
    const auto bits = static_cast<int32_t>(random()) - (1 << 30);
    element = IsFloat(key.dtype) ? std::ldexp(bits, exponent - 36)
                                 : static_cast<double>(bits % 1000);
  }
  return Vector(elements, key.dtype);
}

// The same as the worker pushes it: of some ranks and steps encoded.
PushEntry PushOf(const TestKey& key, uint32_t rank, Step step) {
  constexpr const char* kEncodings[] = {"2bit:0.5", "topk:0.1", "i8:64"};
  PushEntry plain = {.key = key.name, .tensor = GradientOf(key, rank, step)};
  const size_t chosen = (rank + step) % (std::size(kEncodings) + 1);
  if (!IsFloat(key.dtype) || chosen == std::size(kEncodings)) return plain;
  Compressor compressor(
      {.rules = {{"", *Compression::Parse(kEncodings[chosen])}},
       .min_bytes = 0});
  return compressor.Compress(step, {std::move(plain)}).value()[0];
}

void Prepare(const Caller& store, const NamespaceConfig& config) {
  ASSERT_OK(store.Create(config));
  for (const TestKey& key : kKeys) {
    ASSERT_OK(store.SetRule(key.rule, key.name));
    ASSERT_OK(store.Init(key.name, Full({key.num_elements}, 1, key.dtype)));
  }
}

// Pushes a step of all keys, in calls and an order of its own, and waits for
// its rounds.
absl::Status TryStep(const Caller& worker, uint32_t rank, Step step,
                     std::mt19937& random) {
  std::vector<const TestKey*> keys;
  for (const TestKey& key : kKeys) keys.push_back(&key);
  std::shuffle(keys.begin(), keys.end(), random);
  std::vector<PushEntry> entries;
  std::vector<PullEntry> pulled;
  for (const TestKey* key : keys) {
    pulled.push_back({.key = key->name});
    entries.push_back(PushOf(*key, rank, step));
    if (random() % 2 == 0 && key != keys.back()) continue;
    RETURN_IF_ERROR(worker.PushMany(std::exchange(entries, {}), step).status());
  }
  return worker.PullMany(std::move(pulled)).status();
}

// Steps that fail are made again.
void RunWorkers(const std::vector<Caller>& workers, Step first, Step last) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < workers.size(); ++rank) {
    threads.emplace_back([&, rank] {
      std::mt19937 random(rank);
      for (Step step = first; step <= last; ++step) {
        absl::Status status;
        do {
          status = TryStep(workers[rank], rank, step, random);
        } while (ReasonOf(status) == Reason::kRoundFailed);
        ASSERT_OK(status);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class MirroredNamespaceTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kServers = 3;
  static constexpr uint32_t kWorkers = 4;
  static constexpr uint64_t kGpuBytes = 256 << 20;

  void Start(MirrorTimes times = {.patience = absl::Seconds(30),
                                  .attempt = absl::Seconds(30)}) {
    network_ = std::make_unique<MirrorNetwork>(kServers, times);
    for (uint32_t i = 0; i < kServers; ++i) {
      LocalConnectionOptions options = {.num_threads = 1};
      options.store.exchange = network_->exchange(i);
      if (i < gpus_.size()) {
        options.backend = gpus_[i].get();
        options.store.device_budget_bytes = {kGpuBytes};
      }
      servers_.push_back(std::make_unique<LocalConnection>(options));
      Prepare(At(i), ConfigOf(kWorkers, /*mirrored=*/true));
    }
    Prepare(One(), ConfigOf(kWorkers, /*mirrored=*/false));
    // As clients of a cluster do, workers join everywhere.
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      for (uint32_t i = 0; i < kServers; ++i) Join(i, rank);
    }
    Choose(kServers);
  }
  // Has the first servers keep their tensors on GPUs.
  void OpenGpus(absl::Span<FakeGpu* const> gpus) {
    for (FakeGpu* const gpu : gpus) {
      gpus_.push_back(
          *CudaBackend::Create(gpu->Open(), {.quota_bytes = 2 * kGpuBytes}));
    }
  }
  ~MirroredNamespaceTest() override {
    if (network_ != nullptr) network_->Stop();
    servers_.clear();
  }

  void Join(uint32_t server, uint32_t rank) {
    JoinRequest request = {.name_space = kSpace};
    request.worker_name = absl::StrCat("worker", rank);
    request.lease = absl::Minutes(5);
    request.rank = rank;
    const auto joined = servers_[server]->Call(request, {});
    ASSERT_OK(joined);
    joined_.emplace_back(At(server).As(joined->worker));
  }
  // The workers, each at its server of so many.
  void Choose(uint32_t num_servers) {
    workers_.clear();
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      workers_.push_back(joined_[rank * kServers + rank % num_servers]);
    }
  }

  Caller At(uint32_t server) { return Caller(*servers_[server], kSpace); }
  // The one server with all workers.
  Caller One() { return Caller(one_, kSpace); }
  const Caller& Worker(uint32_t rank) { return workers_[rank]; }
  const std::vector<Caller>& Workers() { return workers_; }
  std::vector<Caller> WorkersOfOne() {
    std::vector<Caller> workers;
    for (uint32_t i = 0; i < kWorkers; ++i) workers.push_back(One().As(i));
    return workers;
  }

  static uint32_t Leader() {
    const MirrorGroup group = {.servers = {"s0", "s1", "s2"}};
    return group.leader();
  }
  // All workers push a step, of which the outcome does not reach that server.
  void PushWhereOutcomesAre(Fate fate, uint32_t server) {
    network_->SetFates([=](uint32_t from, uint32_t, const auto& request) {
      return from == server && request.has_announce() ? fate : Fate::kArrives;
    });
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      ASSERT_OK(Worker(rank).Push("small", Full({7}, 1), 1));
    }
  }

  // All servers have values, versions and states that the one server has.
  void ExpectSame(uint32_t num_servers = kServers) {
    for (const TestKey& key : kKeys) {
      const absl::StatusOr<Value> expected = One().Pull(key.name);
      ASSERT_OK(expected);
      for (uint32_t i = 0; i < num_servers; ++i) {
        const absl::StatusOr<Value> value = At(i).Pull(key.name);
        ASSERT_OK(value);
        EXPECT_EQ(value->version, expected->version) << key.name << " at " << i;
        EXPECT_TRUE(BytesOf(value->tensor) == BytesOf(expected->tensor))
            << key.name << " at server " << i;
      }
    }
  }

  std::unique_ptr<MirrorNetwork> network_;
  std::vector<std::unique_ptr<CudaBackend>> gpus_;
  std::vector<std::unique_ptr<LocalConnection>> servers_;
  LocalConnection one_{{.num_threads = 1}};
  // By rank, at each server.
  std::vector<Caller> joined_;
  std::vector<Caller> workers_;
};

TEST_F(MirroredNamespaceTest, HasTheBitsOfOneServerWhateverTheArrival) {
  Start();

  RunWorkers(Workers(), 1, 100);
  RunWorkers(WorkersOfOne(), 1, 100);

  ExpectSame();
  EXPECT_EQ(At(1).Pull("adam")->version, 101u);
}

TEST_F(MirroredNamespaceTest, HasTheSameBitsOnGpus) {
  FakeGpu gpu({.shuffle_seed = 1});
  FakeGpu other({.ordinal = 1, .shuffle_seed = 2});
  OpenGpus({&gpu, &other});
  Start();

  RunWorkers(Workers(), 1, 20);
  RunWorkers(WorkersOfOne(), 1, 20);

  ExpectSame();
  for (const auto& server : servers_) {
    const auto described =
        server->Call(DescribeNamespaceRequest{.name_space = kSpace}, {});
    ASSERT_OK(described);
    EXPECT_EQ(described->memory.contributions, 0u);  // sums, too
  }
  network_->Stop();
  servers_.clear();
  gpus_.clear();
}

TEST_F(MirroredNamespaceTest, RoundThatAllSkipClosesWithoutAnUpdate) {
  Start();
  ASSERT_OK(Worker(0).Skip("small", 1));
  ASSERT_OK(Worker(1).Skip("small", 1));
  ASSERT_OK(Worker(2).Skip("small", 1));

  Background pull([&] { return Worker(2).Pull("small"); });
  ASSERT_OK(Worker(3).Skip("small", 1));

  EXPECT_EQ(pull.Result()->version, 1u);
  ASSERT_OK(Worker(0).Pull("small"));
}

TEST_F(MirroredNamespaceTest, RoundNeedsTensorsOfSomeWorkersOnly) {
  Start();
  const Tensor ones = Full({7}, 1);
  ASSERT_OK(Worker(0).Skip("small", 1));
  ASSERT_OK(Worker(3).Skip("small", 1));
  ASSERT_OK(Worker(1).Push("small", ones, 1));
  ASSERT_OK(Worker(2).Skip("small", 1));

  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(
        Worker(rank).Pull("small"),
        testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(2))));
  }
}

TEST_F(MirroredNamespaceTest, RefusesWhatItCannotSumWithOthers) {
  Start();
  PushEntry weighted = {.key = "small", .tensor = Full({7}, 1)};
  weighted.weight = 2;

  EXPECT_THAT(Worker(0).PushMany({weighted}, 1),
              StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(At(1).As(0).Push("small", Full({7}, 1), 1),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("its own server")));
}

TEST_F(MirroredNamespaceTest, RefusesGroupsThatAreNotWholeSums) {
  Start();
  const Caller other = At(0).In("other");
  NamespaceConfig elastic = ConfigOf(kWorkers, true);
  elastic.max_workers = kWorkers + 1;
  NamespaceConfig quorum = ConfigOf(kWorkers, true);
  quorum.quorum = 2;
  NamespaceConfig async = {.mirrored = true};

  EXPECT_THAT(other.Create(elastic),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(other.Create(quorum),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(other.Create(async),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(other.Create(ConfigOf(kServers - 1, true)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(One().In("other").Create(ConfigOf(kWorkers, true)),
              StatusIs(absl::StatusCode::kUnimplemented));
}

// Whether a call is between a server and another one.
bool IsOf(uint32_t server, uint32_t from, uint32_t to) {
  return from != to && (from == server || to == server);
}

TEST_F(MirroredNamespaceTest, ServerThatIsGoneFailsRoundsByNameAndComesBack) {
  Start(
      {.patience = absl::Milliseconds(50), .attempt = absl::Milliseconds(200)});
  RunWorkers(Workers(), 1, 1);
  for (uint32_t gone = 0; gone < kServers; ++gone) {
    network_->SetFates([gone](uint32_t from, uint32_t to, const auto&) {
      return IsOf(gone, from, to) ? Fate::kIsLost : Fate::kArrives;
    });
    const uint32_t here = (gone + 1) % kServers;
    ASSERT_OK(Worker(here).Push("small", Full({7}, gone), 2 + gone));
    if (here == 0) {
      ASSERT_OK(Worker(3).Push("small", Full({7}, gone), 2 + gone));
    }

    EXPECT_THAT(Worker(here).Pull("small"),
                AllOf(HasReason(Reason::kRoundFailed),
                      StatusIs(absl::StatusCode::kAborted,
                               HasSubstr(absl::StrCat("server s")))));

    network_->SetFates(nullptr);
    RunWorkers(Workers(), 2 + gone, 2 + gone);
  }
  RunWorkers(WorkersOfOne(), 1, 1 + kServers);
  ExpectSame();
}

// A server that has had a sum, and not heard that it counts, gets it when its
// workers have pushed again: not what they push then, as the others have the
// sum already.
TEST_F(MirroredNamespaceTest, OutcomeThatWasNotHeardIsLearntByPushingAgain) {
  Start(
      {.patience = absl::Milliseconds(50), .attempt = absl::Milliseconds(500)});
  const uint32_t leader = Leader();
  const uint32_t deaf = (leader + 1) % kServers;
  PushWhereOutcomesAre(Fate::kReplyIsLost, deaf);
  const auto has_sum =
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5)));
  EXPECT_THAT(Worker(leader).Pull("small"), has_sum);
  EXPECT_THAT(Worker(deaf).Pull("small").status(),
              HasReason(Reason::kRoundFailed));

  network_->SetFates(nullptr);
  for (uint32_t rank = deaf; rank < kWorkers; rank += kServers) {
    ASSERT_OK(Worker(rank).Push("small", Full({7}, 100), 1));
  }

  EXPECT_THAT(Worker(deaf).Pull("small"), has_sum);
  EXPECT_EQ(At(deaf).Pull("small")->version, 2u);
}

// What has closed at the others closes at a server that is being stopped, too,
// or it would come back with less than they have.
TEST_F(MirroredNamespaceTest, ServerThatIsStoppedSettlesItsSumsFirst) {
  Start();
  const uint32_t stopped = (Leader() + 1) % kServers;
  PushWhereOutcomesAre(Fate::kReplyIsHeld, stopped);
  network_->AwaitHeldReply();
  for (uint32_t rank = stopped; rank < kWorkers; rank += kServers) {
    ASSERT_OK(Worker(rank).Push("i32", Full({30}, 1, DType::kI32), 1));
  }

  EXPECT_FALSE(network_->exchange(stopped)->Settle(absl::ZeroDuration()));
  // Nobody else has pushed to it.
  EXPECT_THAT(Worker(stopped).Pull("i32").status(),
              HasReason(Reason::kRoundFailed));
  network_->ReleaseReplies();
  EXPECT_TRUE(network_->exchange(stopped)->Settle(absl::Minutes(1)));
  network_->exchange(stopped)->Stop();

  EXPECT_THAT(
      Worker(stopped).Pull("small"),
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5))));
}

TEST_F(MirroredNamespaceTest, ServerThatIsStoppedAsksAgainForItsSums) {
  Start();
  const uint32_t stopped = (Leader() + 1) % kServers;
  PushWhereOutcomesAre(Fate::kReplyIsHeld, stopped);
  network_->AwaitHeldReply();
  EXPECT_FALSE(network_->exchange(stopped)->Settle(absl::ZeroDuration()));

  network_->LoseReplies();

  EXPECT_TRUE(network_->exchange(stopped)->Settle(absl::Minutes(1)));
  EXPECT_THAT(
      Worker(stopped).Pull("small"),
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5))));
}

TEST_F(MirroredNamespaceTest, GoesOnWithTheServersThatAreLeft) {
  Start();
  RunWorkers(Workers(), 1, 3);

  network_->Connect(kServers - 1);
  Choose(kServers - 1);
  RunWorkers(Workers(), 4, 6);

  RunWorkers(WorkersOfOne(), 1, 6);
  ExpectSame(kServers - 1);
}

// What a worker has pushed with other keys does not wait for those.
TEST_F(MirroredNamespaceTest, RoundEndsBeforeOthersThatWereAnnouncedWithIt) {
  // Nobody lives to see the patience of the leader end.
  Start({.patience = absl::Hours(1), .attempt = absl::Seconds(30)});
  std::vector<PushEntry> both(2);
  both[0] = {.key = "small", .tensor = Full({7}, 1)};
  both[1] = {.key = "i32", .tensor = Full({30}, 1, DType::kI32)};
  for (uint32_t rank = 0; rank + 1 < kWorkers; ++rank) {
    ASSERT_OK(Worker(rank).PushMany(both, 1));
  }
  ASSERT_OK(Worker(kWorkers - 1).Push("small", both[0].tensor, 1));

  const Caller worker = Worker(1).Within(absl::Minutes(1));
  EXPECT_THAT(
      worker.Pull("small"),
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5))));

  ASSERT_OK(Worker(kWorkers - 1).Push("i32", both[1].tensor, 1));
  EXPECT_THAT(
      worker.Pull("i32"),
      testing::IsOkAndHolds(testing::HasTensor(testing::IsFilledWith(5))));
}

// Whatever is lost, no contribution counts twice and none is left out.
TEST_F(MirroredNamespaceTest, HasTheBitsOfOneServerWhateverIsLost) {
  Start(
      {.patience = absl::Milliseconds(30), .attempt = absl::Milliseconds(100)});
  Mutex mutex;
  std::mt19937 random(1);
  network_->SetFates([&](uint32_t from, uint32_t to, const auto&) {
    MutexLock lock(&mutex);
    const uint32_t fate = random() % 60;
    if (from == to || fate > 1) return Fate::kArrives;
    return fate == 0 ? Fate::kIsLost : Fate::kReplyIsLost;
  });

  RunWorkers(Workers(), 1, 30);

  RunWorkers(WorkersOfOne(), 1, 30);
  ExpectSame();
}

TEST_F(MirroredNamespaceTest, ServersWithOtherVersionsDoNotSum) {
  Start(
      {.patience = absl::Milliseconds(50), .attempt = absl::Milliseconds(200)});
  ASSERT_OK(At(1).Delete({"small"}));
  ASSERT_OK(At(1).Init("small", Full({7}, 3)));

  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    ASSERT_OK(Worker(rank).Push("small", Full({7}, 1), 1));
  }

  EXPECT_THAT(Worker(0).Pull("small"),
              AllOf(HasReason(Reason::kRoundFailed),
                    StatusIs(absl::StatusCode::kAborted,
                             HasSubstr("expected the same key"))));
}

}  // namespace
}  // namespace tensorkv

// Rounds of a mirrored namespace at one server, while the others are silent.

#include "service/store/keyspace/rounds/exchanged_rounds.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "contract/encoding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/round_exchange.h"
#include "tests/service/store/init_now.h"
#include "tests/service/store/scripted_store.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"

namespace tensorkv {
namespace exchanged_rounds_test {

using testing::Filled;
using testing::HasReason;
using testing::InitNow;
using testing::ScriptedBackend;

constexpr uint64_t kBudgetBytes = 1 << 20;
constexpr int64_t kNumElements = 10'000;
constexpr uint64_t kDecodedBytes = kNumElements * sizeof(float);

// Keeps the rounds that it is to sum, until a test fails them or their keys are
// removed.
class SilentExchange final : public RoundExchange {
 public:
  absl::Status CheckGroup(uint32_t) const override { return absl::OkStatus(); }
  bool IsLocal(uint32_t) const override { return true; }
  void Sum(const std::string&, const RefPtr<BudgetAccount>&,
           std::vector<RoundToSum> rounds,
           std::function<void(std::vector<SummedRound>)> summed) override {
    MutexLock lock(&mutex_);
    for (size_t place = 0; place < rounds.size(); ++place) {
      std::string key = rounds[place].key;
      rounds_[std::move(key)] = {place, std::move(rounds[place])};
    }
    summed_ = std::move(summed);
    changed_.SignalAll();
  }
  void Applied(const std::string&, absl::string_view, Step) override {}
  void Remove(const std::string&, const std::string& key, Version) override {
    FailIfThere(key);
  }
  void Forget(const std::string&) override {}

  bool has_rounds() {
    MutexLock lock(&mutex_);
    return !rounds_.empty();
  }
  // Waits until it has a round of the key, for up to a minute.
  void Await(const std::string& key) {
    MutexLock lock(&mutex_);
    bool is_over = false;
    while (!rounds_.contains(key) && !is_over) {
      is_over = changed_.WaitWithTimeout(&mutex_, absl::Minutes(1));
    }
  }
  // Awaits the round of the key, fails it, and returns how many tensors it had.
  size_t Fail(const std::string& key) {
    Await(key);
    return FailIfThere(key);
  }

 private:
  struct Round {
    size_t place = 0;
    RoundToSum round;
  };

  size_t FailIfThere(const std::string& key) {
    std::function<void(std::vector<SummedRound>)> summed;
    Round failed;
    {
      MutexLock lock(&mutex_);
      const auto found = rounds_.find(key);
      if (found == rounds_.end()) return 0;
      failed = std::move(found->second);
      rounds_.erase(found);
      summed = summed_;
      if (rounds_.empty()) summed_ = nullptr;
    }
    const size_t num_tensors = failed.round.tensors.size();
    failed.round.tensors.clear();
    std::vector<SummedRound> ended;
    ended.push_back({failed.place, absl::AbortedError("nobody answers")});
    summed(std::move(ended));
    return num_tensors;
  }

  Mutex mutex_;
  CondVar changed_;
  // By key.
  std::map<std::string, Round> rounds_ ABSL_GUARDED_BY(mutex_);
  std::function<void(std::vector<SummedRound>)> summed_ ABSL_GUARDED_BY(mutex_);
};

// All zeros, of which nothing is sent.
PushEntry Nothing() {
  return {.key = "w",
          .tensor = *Tensor::CopyOf(DType::kU8, {0}, ""),
          .encoding = *Encoding::Create({.kind = PackingKind::kTopK},
                                        DType::kF32, {kNumElements})};
}

class ExchangedRoundsTest : public ::testing::Test {
 protected:
  void Create(uint32_t num_workers) {
    ASSERT_OK(testing::MakeNow(
        store_, testing::CreateOf("n", {.mode = Mode::kSync,
                                        .num_workers = num_workers,
                                        .mirrored = true})));
    Init("w", kNumElements);
  }
  void Init(const std::string& key, int64_t num_elements) {
    InitRequest request = {.name_space = "n"};
    request.entries.push_back({key, Filled(0, {num_elements})});
    ASSERT_OK(InitNow(store_, std::move(request)));
  }
  static PushRequest PushOf(uint32_t rank, std::vector<PushEntry> entries) {
    PushRequest request = {.name_space = "n"};
    request.worker = Worker{.rank = rank};
    request.step = 1;
    request.entries = std::move(entries);
    return request;
  }
  absl::Status Push(uint32_t rank, std::vector<PushEntry> entries) {
    testing::Inbox<PushReply> inbox;
    store_.Push(PushOf(rank, std::move(entries)), {}, inbox.Callback());
    inbox.Wait();
    return inbox.answer->status();
  }
  uint64_t ContributedBytes() {
    return testing::Described(store_, "n").memory().contributions();
  }

  ScriptedBackend backend_;
  FakeAlarms alarms_;
  SilentExchange exchange_;
  MemoryTensorStore store_{
      {.budget_bytes = kBudgetBytes, .exchange = &exchange_},
      &backend_,
      &alarms_};
};

// A few bytes stand for tensors that the exchange takes whole.
TEST_F(ExchangedRoundsTest, PushThatDecodesToMoreThanThereIsHasNoEffect) {
  Create(1);
  const std::vector<PushEntry> many(kBudgetBytes / kDecodedBytes + 1,
                                    Nothing());

  EXPECT_THAT(store_.CheckPush(PushOf(0, many), {}),
              HasReason(Reason::kOverBudget));
  EXPECT_THAT(Push(0, many), HasReason(Reason::kOverBudget));

  EXPECT_FALSE(exchange_.has_rounds());
  EXPECT_EQ(ContributedBytes(), 0u);
  ASSERT_OK(Push(0, {2, Nothing()}));
  EXPECT_EQ(exchange_.Fail("w"), 2u);
  EXPECT_EQ(ContributedBytes(), 0u);
}

TEST_F(ExchangedRoundsTest, RoomToDecodeIsThereOnceTheRoundCloses) {
  Create(2);
  ASSERT_OK(Push(0, {Nothing()}));
  EXPECT_EQ(ContributedBytes(), kDecodedBytes);
  // It leaves room for no other tensor.
  const uint64_t free_bytes = kBudgetBytes - store_.used_bytes();
  Init("rest",
       static_cast<int64_t>((free_bytes - kDecodedBytes / 2) / sizeof(float)));

  ASSERT_OK(Push(1, {{.key = "w", .skip = true}}));

  EXPECT_EQ(exchange_.Fail("w"), 1u);
  EXPECT_EQ(ContributedBytes(), 0u);
}

// It has changed nothing, so that there is nothing to decode for it.
TEST_F(ExchangedRoundsTest, RepeatTakesNoRoomToDecode) {
  Create(2);
  PushRequest request = PushOf(0, {Nothing()});
  request.call_id = CallId{.client_id = "client", .sequence = 1};
  testing::Inbox<PushReply> first, again;
  store_.Push(request, {}, first.Callback());
  request.call_id->sequence = 2;
  store_.Push(request, {}, again.Callback());
  first.Wait();
  again.Wait();

  ASSERT_OK(*again.answer);
  EXPECT_TRUE((*again.answer)->results[0].repeated);
  EXPECT_EQ(ContributedBytes(), kDecodedBytes);
}

// The exchange has both rounds, and ends that of the key.
TEST_F(ExchangedRoundsTest, KeyThatIsRemovedDoesNotStayForTheRoundOfAnother) {
  Create(1);
  Init("other", 1);
  ASSERT_OK(
      Push(0, {{.key = "w", .skip = true}, {.key = "other", .skip = true}}));
  exchange_.Await("w");

  ASSERT_OK(testing::MakeNow(store_, testing::DeleteOf({"w"}, "n"), {}));

  // The value of the other, and room for that which its round will make.
  EXPECT_EQ(testing::Described(store_, "n").memory().values(),
            2 * sizeof(float));
  exchange_.Fail("other");
}

}  // namespace exchanged_rounds_test
}  // namespace tensorkv

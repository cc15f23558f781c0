// What the store of one server does with a mirrored namespace when its own
// updates fail, or its partitions go.

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "contract/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/mirror/mirror_network.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::mirrored_store_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using testing::Full;
using testing::HasReason;
using ::testing::HasSubstr;
using testing::HasTensor;
using testing::IsFilledWith;
using testing::IsOkAndHolds;
using testing::MirrorNetwork;
using testing::StatusIs;

constexpr char kSpace[] = "n";

// A server that sums what is pushed to "w", which is [1, 1, 1, 1].
class MirroredStore {
 public:
  MirroredStore(MirrorNetwork& network, uint32_t index, uint32_t num_workers)
      : store_({.exchange = network.exchange(index)}, &backend_, &alarms_) {
    EXPECT_OK(testing::MakeNow(
        store_, testing::CreateOf(kSpace, {.mode = Mode::kSync,
                                           .num_workers = num_workers,
                                           .rule = {.name = "accumulate"},
                                           .mirrored = true})));
    InitRequest init = {.name_space = kSpace};
    init.entries.push_back({.key = "w", .tensor = Full({4}, 1)});
    EXPECT_OK(testing::InitNow(store_, std::move(init)));
  }

  // The answer, with the value after the step.
  Answer<absl::StatusOr<PullReply>> PushPull(uint32_t rank, double element,
                                             Step step) {
    PushPullRequest push;
    push.name_space = kSpace;
    push.worker = Worker{.rank = rank};
    push.step = step;
    push.entries.push_back({.key = "w", .tensor = Full({4}, element)});
    const Answer<absl::StatusOr<PullReply>> answer;
    store_.PushPull(std::move(push), CallContext(),
                    [answer](absl::StatusOr<PullReply> reply) {
                      answer.Set(std::move(reply));
                    });
    return answer;
  }

  void FailUpdates() {
    backend_.FailApply(absl::ResourceExhaustedError("no room"));
  }
  void MakeUpdates() { backend_.FailApply(absl::OkStatus()); }
  MemoryTensorStore& store() { return store_; }

 private:
  testing::ScriptedBackend backend_;
  SteadyAlarms alarms_;
  MemoryTensorStore store_;
};

auto Has(double element) {
  return IsOkAndHolds(
      Field(&PullReply::values, ElementsAre(HasTensor(IsFilledWith(element)))));
}

// The other servers have made their updates of a sum, so one that could not
// makes its own of the same, and not of what its workers push again.
TEST(MirroredStoreTest, UpdateThatFailedIsMadeOfTheSameSum) {
  MirrorNetwork network(1);
  MirroredStore server(network, 0, /*num_workers=*/1);
  server.FailUpdates();
  EXPECT_THAT(server.PushPull(0, 10, 1).Wait().status(),
              HasReason(Reason::kRoundFailed));

  server.MakeUpdates();

  EXPECT_THAT(server.PushPull(0, 100, 1).Wait(), Has(11));
  EXPECT_THAT(server.PushPull(0, 100, 2).Wait(), Has(111));
}

// Workers may be a step ahead: its round is not told to the others before the
// one that has failed is made up for.
TEST(MirroredStoreTest, UpdateThatFailedIsMadeBeforeTheNextSum) {
  MirrorNetwork network(2);
  MirroredStore failing(network, 0, /*num_workers=*/2);
  MirroredStore other(network, 1, /*num_workers=*/2);
  failing.FailUpdates();
  const auto first = failing.PushPull(0, 10, 1);
  const auto second = failing.PushPull(0, 100, 2);
  const auto first_of_other = other.PushPull(1, 20, 1);
  const auto second_of_other = other.PushPull(1, 200, 2);
  EXPECT_THAT(first.Wait().status(), HasReason(Reason::kRoundFailed));
  EXPECT_THAT(second.Wait().status(), HasReason(Reason::kRoundFailed));

  failing.MakeUpdates();

  EXPECT_THAT(failing.PushPull(0, 1000, 1).Wait(), Has(31));
  EXPECT_THAT(failing.PushPull(0, 300, 2).Wait(), Has(531));
  EXPECT_OK(first_of_other.Wait());
  EXPECT_THAT(second_of_other.Wait(), Has(531));
}

// Keys stay, whatever becomes of their partitions.
TEST(MirroredStoreTest, KeysNeitherMoveNorGoWithTheirPartitions) {
  MirrorNetwork network(1);
  MirroredStore server(network, 0, /*num_workers=*/1);
  const PartitionSet all = {.num_partitions = 1, .partitions = {0}};

  EXPECT_THAT(server.store().Fence(all, [] { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("\"n\"")));
  server.store().Discard(all);

  EXPECT_OK(testing::MakeNow(server.store(), testing::StatOf({"w"}, kSpace)));
}

}  // namespace
}  // namespace tensorkv::mirrored_store_test

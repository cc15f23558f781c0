// What deltas that are kept take, beside named snapshots.

#include <cstdint>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "contract/snapshot_references.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/store/memory_tensor_store.h"
#include "tests/service/store/init_now.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::Full;
using ::tensorkv::testing::MakeNow;

// A key of 64 KiB, of which a third changes in each push, so that a delta of
// indices and values takes two thirds as much. Snapshots may have two values
// and something, but not a delta besides.
class KeptDeltasTest : public ::testing::Test {
 protected:
  static constexpr int64_t kElements = 1 << 14;
  static constexpr uint64_t kBytes = kElements * sizeof(float);
  static constexpr uint64_t kMaxRetained = 2 * kBytes + kBytes / 2;

  KeptDeltasTest() {
    EXPECT_OK(MakeNow(
        store_, testing::CreateOf("n", {.max_retained_bytes = kMaxRetained})));
    EXPECT_OK(MakeNow(
        store_, InitRequest{.name_space = "n", .entries = {{"w", Next()}}}));
  }

  // Returns the next value of the key.
  Tensor Next() {
    ++count_;
    Tensor tensor = Full({kElements}, 1);
    for (int64_t i = 0; i < kElements; i += 3) {
      tensor.mutable_elements<float>()[i] = static_cast<float>(count_);
    }
    return tensor;
  }
  void Create() {
    CreateSnapshotRequest request;
    request.set_namespace_("n");
    request.set_series("s");
    EXPECT_OK(MakeNow(store_, request));
  }
  void Push() {
    PushRequest request = {.name_space = "n", .entries = {{.key = "w"}}};
    request.entries.front().tensor = Next();
    EXPECT_OK(MakeNow(store_, request));
    EXPECT_LE(Retained(), kMaxRetained);
  }
  absl::StatusOr<Value> Pull(const SnapshotReference& at,
                             const std::string& held = "") {
    PullRequest request = {.name_space = "n",
                           .entries = {{"w", 0, nullptr, held}},
                           .at = at,
                           .changes = v1::PullChanges()};
    request.changes->add_encodings(v1::DELTA_ENCODING_SPARSE);
    ASSIGN_OR_RETURN(PullReply reply, MakeNow(store_, request));
    return std::move(reply.values.front());
  }
  // Expects that a delta leads from one snapshot to another.
  void ExpectDelta(uint64_t from, uint64_t to) {
    ASSERT_OK_AND_ASSIGN(const Value held, Pull(SnapshotOf("s", from)));
    ASSERT_OK_AND_ASSIGN(const Value value,
                         Pull(SnapshotOf("s", to), held.change->token));
    EXPECT_TRUE(value.change->delta);
  }
  NamespaceSummary Summary() {
    for (NamespaceSummary& each : store_.Summaries()) {
      if (each.name == "n") return std::move(each);
    }
    return {};
  }
  uint64_t Retained() { return Summary().memory.retained; }

  testing::ScriptedBackend backend_;
  FakeAlarms alarms_;
  MemoryTensorStore store_{
      {.budget_bytes = 1 << 30, .max_retained_bytes = 1 << 30},
      &backend_,
      &alarms_};
  int count_ = 0;
};

TEST_F(KeptDeltasTest, OneIsMadeForAllAndCountedAsRetained) {
  Create();
  Push();
  Create();
  const uint64_t before = Retained();

  ExpectDelta(1, 2);

  EXPECT_GT(Retained(), before + kBytes / 2);
  ExpectDelta(1, 2);
  EXPECT_EQ(Summary().changes.made, 1);
  EXPECT_EQ(Summary().changes.shared, 1);
}

TEST_F(KeptDeltasTest, TheyGoBeforeSnapshots) {
  Create();
  Push();
  Create();
  ExpectDelta(1, 2);

  Push();

  EXPECT_OK(Pull(SnapshotOf("s", 1)).status());
  EXPECT_OK(Pull(SnapshotOf("s", 2)).status());
  // There is no room to keep the next one, which comes all the same.
  Create();
  const uint64_t before = Retained();
  ExpectDelta(1, 3);
  EXPECT_EQ(Retained(), before);
  ExpectDelta(1, 3);
  EXPECT_EQ(Summary().changes.made, 3);
  EXPECT_OK(Pull(SnapshotOf("s", 1)).status());
}

TEST_F(KeptDeltasTest, TheyGoWithTheLastSnapshot) {
  Create();
  Push();
  Create();
  ExpectDelta(1, 2);
  DeleteSnapshotRequest all;
  all.set_namespace_("n");
  all.set_series("s");
  ASSERT_OK(MakeNow(store_, all));

  EXPECT_LT(Retained(), 2048);
}

}  // namespace
}  // namespace tensorkv

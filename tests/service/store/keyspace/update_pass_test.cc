#include "service/store/keyspace/update_pass.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/scripted_backend.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::ScriptedBackend;
using ::tensorkv::testing::StatusIs;

class UpdatePassTest : public ::testing::Test {
 protected:
  // A key of two elements under `rule`, with state to be filled.
  RefPtr<StoredKey> Key(const RuleSpec& rule, DType dtype, double value) {
    RefPtr<StoredKey> key = StoredKey::Create("w", dtype, {2});
    key->value = Tensor::Filled(dtype, {2}, value)->buffer();
    key->rule = MakeRefCounted<BoundRule>(*UpdateRule::Create(rule));
    auto state = MakeRefCounted<RuleState>();
    for (int i = 0; i < key->rule->num_states(); ++i) {
      state->states.push_back(*backend_.Allocate(8, nullptr));
    }
    if (key->rule->keeps_master(dtype)) {
      state->master = *backend_.Allocate(8, nullptr);
    }
    state->states_are_new = true;
    state->master_is_new = state->master != nullptr;
    key->rule_state = std::move(state);
    return key;
  }

  void AddPending(StoredKey& key, double gradient) {
    if (!key.pending) {
      key.pending = std::make_unique<std::list<PendingUpdate>>();
    }
    PendingUpdate& update = key.pending->emplace_back();
    update.slots.emplace_back(
        PushEntry{.tensor = *Tensor::Filled(DType::kF32, {2}, gradient)});
    update.value_reservation =
        *Reservation::Create(account_, key.value_bytes());
  }

  absl::Status RunOne(StoredKey& key) {
    UpdatePass pass(&backend_, &memory_);
    pass.AddPending(&key);
    pass.Run();
    UpdatePass::Item& item = pass.items()[0];
    UpdatePass::Complete(item, pass.StatusOf(item), /*restored_versions=*/0);
    return pass.StatusOf(item);
  }

  static float First(const StoredKey& key) {
    return key.ToTensor().elements<float>()[0];
  }

  RefPtr<BudgetAccount> account_ =
      MakeRefCounted<BudgetAccount>(MakeRefCounted<ByteBudget>("test", 1000));
  ScriptedBackend backend_;
  const ServerBudgets budgets_{1 << 20, 0, backend_};
  const NamespaceMemory memory_{"test", 1 << 20, &budgets_};
};

TEST_F(UpdatePassTest, FailureKeepsValueVersionAndNewState) {
  const auto key =
      Key({"sgd", {{"learning_rate", 1}, {"momentum", 0.5}}}, DType::kF32, 0);
  AddPending(*key, 1);
  AddPending(*key, 1);
  backend_.FailApply(absl::InternalError("broken"));

  EXPECT_THAT(RunOne(*key), StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(key->version, 1u);
  backend_.FailApply(absl::OkStatus());
  EXPECT_OK(RunOne(*key));

  EXPECT_EQ(First(*key), -1);
}

TEST_F(UpdatePassTest, FailureIsNotCountedAfterAChangeOfHyperparameters) {
  const auto key = Key({"sgd", {{"learning_rate", 1}}}, DType::kF32, 0);
  key->update_count = 3;
  AddPending(*key, 1);
  backend_.FailApply(absl::InternalError("broken"));
  UpdatePass pass(&backend_, &memory_);
  pass.AddPending(key.get());
  pass.Run();
  key->rule = MakeRefCounted<BoundRule>(
      *UpdateRule::Create({"sgd", {{"learning_rate", 2}}}));

  UpdatePass::Complete(pass.items()[0], pass.StatusOf(pass.items()[0]),
                       /*restored_versions=*/0);

  EXPECT_EQ(key->update_count, 3u);
}

TEST_F(UpdatePassTest, FailedAllocationReleasesItsRoom) {
  const auto key = Key({"accumulate", {}}, DType::kF32, 1);
  const Tensor reader = key->ToTensor();
  AddPending(*key, 5);
  backend_.FailAllocate(absl::ResourceExhaustedError("no memory"));

  EXPECT_THAT(RunOne(*key), StatusIs(absl::StatusCode::kResourceExhausted));

  EXPECT_EQ(account_->used_bytes(), 0u);
}

class PlainUpdatesTest : public UpdatePassTest {
 protected:
  // A key without states.
  RefPtr<StoredKey> Key(const RuleSpec& rule, double value = 1) {
    RefPtr<StoredKey> key = UpdatePassTest::Key(rule, DType::kF32, value);
    key->rule_state = nullptr;
    return key;
  }
  // Of two elements.
  static PushEntry Entry(double value) {
    return {.tensor = *Tensor::Filled(DType::kF32, {2}, value)};
  }
  bool Takes(StoredKey& key, const PushEntry& entry) {
    return PlainUpdates().Add(&key, call_, entry, /*result=*/0);
  }

  const RefPtr<QueuedCall> call_ = MakeRefCounted<QueuedCall>();
};

TEST_F(PlainUpdatesTest, TakesOneTensorOfItsDTypeAndNothingElse) {
  const auto key = Key({"accumulate", {}});
  PushEntry weighted = Entry(1);
  weighted.weight = 2;
  const PushEntry skipped = {.skip = true};
  const PushEntry f64 = {.tensor = *Tensor::Filled(DType::kF64, {2}, 1)};

  EXPECT_FALSE(Takes(*key, weighted));
  EXPECT_FALSE(Takes(*key, skipped));
  EXPECT_FALSE(Takes(*key, f64));
  EXPECT_FALSE(key->is_updating);
  EXPECT_TRUE(Takes(*key, Entry(1)));
}

TEST_F(PlainUpdatesTest, TakesNoKeyWithStatesOrMultipliersOrReaders) {
  const RuleSpec accumulate = {"accumulate", {}};
  const auto multiplied = Key(accumulate);
  multiplied->multipliers = MakeRefCounted<BoundMultipliers>(Multipliers());
  const auto read = Key(accumulate);
  const Tensor reader = read->ToTensor();

  EXPECT_FALSE(
      Takes(*UpdatePassTest::Key({"sgd", {{"momentum", 0.5}}}, DType::kF32, 1),
            Entry(1)));
  EXPECT_FALSE(Takes(*Key({"sgld", {}}), Entry(1)));
  EXPECT_FALSE(Takes(*multiplied, Entry(1)));
  EXPECT_FALSE(Takes(*read, Entry(1)));
}

// More than one batch.
TEST_F(PlainUpdatesTest, RunsAllByTheirRules) {
  std::vector<RefPtr<StoredKey>> keys;
  PlainUpdates updates;
  for (uint32_t i = 0; i < 3000; ++i) {
    keys.push_back(Key({i % 2 == 0 ? "accumulate" : "assign", {}}));
    EXPECT_TRUE(updates.Add(keys[i].get(), call_, Entry(i), i));
    EXPECT_TRUE(keys[i]->is_updating && keys[i]->value_is_changing);
  }

  updates.Run(backend_);

  for (const PlainUpdates::Update& update : updates.updates()) {
    ASSERT_OK(updates.StatusOf(update));
    PlainUpdates::Complete(update, absl::OkStatus(), /*restored_versions=*/7);
    const StoredKey& key = *keys[update.result];
    ASSERT_EQ(First(key), update.result + (update.result % 2 == 0 ? 1 : 0));
    ASSERT_EQ(key.version, 8u);
    ASSERT_FALSE(key.is_updating || key.value_is_changing);
  }
}

TEST_F(PlainUpdatesTest, FailureKeepsValueVersionAndCount) {
  const auto key = Key({"accumulate", {}});
  PlainUpdates updates;
  EXPECT_TRUE(updates.Add(key.get(), call_, Entry(5), 0));
  backend_.FailApply(absl::InternalError("broken"));

  updates.Run(backend_);
  const PlainUpdates::Update& update = updates.updates()[0];
  const absl::Status& status = updates.StatusOf(update);
  PlainUpdates::Complete(update, status, /*restored_versions=*/0);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(First(*key), 1);
  EXPECT_EQ(key->version, 1u);
  EXPECT_EQ(key->update_count, 0u);
}

}  // namespace
}  // namespace tensorkv

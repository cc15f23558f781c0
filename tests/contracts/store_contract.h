// Contract suites: what every store must do, however it is reached.
//
// Each topic is an abstract suite: its tests stand in <topic>_contract.cc and
// run on every store that some test binary instantiates them with. A new way
// to reach a store is a StoreUnderTest and one INSTANTIATE_STORE_CONTRACTS.

#ifndef TENSORKV_TESTS_CONTRACTS_STORE_CONTRACT_H_
#define TENSORKV_TESTS_CONTRACTS_STORE_CONTRACT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "gtest/gtest.h"
#include "tests/contracts/caller.h"

namespace tensorkv::testing {

// A fresh store and the connection that reaches it.
class StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;
  virtual Connection& connection() = 0;
  // Whether it is several servers.
  virtual bool is_cluster() const { return false; }
  // Where it keeps tensors.
  virtual std::string device() const { return "cpu"; }
};

// Never null; a failure to start is a failure of the test.
using StoreFactory = std::unique_ptr<StoreUnderTest> (*)();

class StoreContractTest : public ::testing::TestWithParam<StoreFactory> {
 protected:
  Connection& connection() { return store_under_test_->connection(); }
  bool is_cluster() const { return store_under_test_->is_cluster(); }
  std::string device() const { return store_under_test_->device(); }

  // Creates the namespace and returns a caller in it.
  Caller NewNamespace(const std::string& name, const NamespaceConfig& config);

  // A new namespace of mode sync. `rule` as RuleSpec::ToString writes it.
  Caller NewSyncNamespace(uint32_t num_workers,
                          const std::string& rule = "assign");

  // Waits until `num_calls` calls wait in the caller's namespace.
  void AwaitWaitingCalls(const Caller& caller, uint64_t num_calls);

  // Makes a call that must wait, cancels it when it waits, and returns when it
  // waits no more. No other call may wait in the caller's namespace.
  void CancelOnceItWaits(
      const Caller& caller,
      absl::FunctionRef<absl::Status(const std::shared_ptr<Canceller>&)> call);

 private:
  const std::unique_ptr<StoreUnderTest> store_under_test_ = GetParam()();

 protected:
  // In the namespace "default".
  const Caller store_ = Caller(connection(), "");
};

// Returns how `wait` ends, which waits in vain and changes nothing. A caller
// may give up before the store's status comes to it, on a busy machine: then it
// waits again, for longer.
absl::Status EndOfWait(const Caller& caller,
                       absl::FunctionRef<absl::Status(const Caller&)> wait);

// Expects that it ends with a status which names what was missing.
void ExpectWaitNames(absl::string_view missing, const Caller& caller,
                     absl::FunctionRef<absl::Status(const Caller&)> wait);

// Runs work(0) to work(num_threads - 1) at the same time, to their end.
void RunConcurrently(int num_threads, const std::function<void(int)>& work);

// Asks again and again until `condition` holds; false after a minute.
bool Eventually(const std::function<bool()>& condition);

// Writes DO(suite, ...) for every suite.
#define FOR_EVERY_STORE_CONTRACT(DO, ...)  \
  DO(InitContractTest, __VA_ARGS__)        \
  DO(PushContractTest, __VA_ARGS__)        \
  DO(NumbersContractTest, __VA_ARGS__)     \
  DO(PullContractTest, __VA_ARGS__)        \
  DO(KeysContractTest, __VA_ARGS__)        \
  DO(NamespaceContractTest, __VA_ARGS__)   \
  DO(RuleContractTest, __VA_ARGS__)        \
  DO(SyncContractTest, __VA_ARGS__)        \
  DO(MembershipContractTest, __VA_ARGS__)  \
  DO(BoundedContractTest, __VA_ARGS__)     \
  DO(RoundSumContractTest, __VA_ARGS__)    \
  DO(AllReduceContractTest, __VA_ARGS__)   \
  DO(ConcurrencyContractTest, __VA_ARGS__) \
  DO(OnceContractTest, __VA_ARGS__)        \
  DO(BudgetContractTest, __VA_ARGS__)      \
  DO(BadInputContractTest, __VA_ARGS__)    \
  DO(ReasonContractTest, __VA_ARGS__)      \
  DO(EncodingContractTest, __VA_ARGS__)    \
  DO(RowsContractTest, __VA_ARGS__)        \
  DO(SnapshotContractTest, __VA_ARGS__)    \
  DO(WatchContractTest, __VA_ARGS__)

#define DECLARE_STORE_CONTRACT(suite, ...) \
  class suite : public StoreContractTest {};
FOR_EVERY_STORE_CONTRACT(DECLARE_STORE_CONTRACT)
#undef DECLARE_STORE_CONTRACT

// What has changed since what a reader holds.
class ChangesContractTest : public StoreContractTest {
 protected:
  bool has_deltas() const { return device() == "cpu"; }
};

// Runs every suite on the stores that `factory` makes.
#define INSTANTIATE_STORE_CONTRACT(suite, prefix, factory) \
  INSTANTIATE_TEST_SUITE_P(prefix, suite, ::testing::Values(factory));
#define INSTANTIATE_STORE_CONTRACTS(prefix, factory)                    \
  FOR_EVERY_STORE_CONTRACT(INSTANTIATE_STORE_CONTRACT, prefix, factory) \
  INSTANTIATE_STORE_CONTRACT(ChangesContractTest, prefix, factory)      \
  static_assert(true)

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_STORE_CONTRACT_H_

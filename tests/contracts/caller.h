// The verbs of the contract for tests: one namespace, mostly one key.

#ifndef TENSORKV_TESTS_CONTRACTS_CALLER_H_
#define TENSORKV_TESTS_CONTRACTS_CALLER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/connection.h"

namespace tensorkv::testing {

// Makes calls on a connection, which it does not own, in one namespace, as one
// worker or as nobody in particular. Copies share the connection. Thread-safe.
//
// Nothing is checked or counted here, unlike in Client: what a test says is
// what the store gets.
class Caller {
 public:
  Caller(Connection& connection, std::string name_space)
      : connection_(&connection), name_space_(std::move(name_space)) {}

  // The same caller in another namespace, as a worker, with a short deadline.
  Caller In(std::string name_space) const;
  Caller As(uint32_t rank) const;
  Caller As(const Worker& worker) const;
  Caller WithTimeout(absl::Duration timeout) const;
  Caller EndedBy(std::shared_ptr<Canceller> canceller) const;

  // Makes a call by its request, of the caller's namespace, with what else it
  // says.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Call(Request request) const {
    SetNamespace(name_space_, request);
    return connection_->Call(request, options_);
  }

  absl::StatusOr<Version> Init(
      const std::string& key, Tensor tensor,
      OnExisting on_existing = OnExisting::kFail) const;
  absl::StatusOr<InitReply> InitMany(
      std::vector<InitEntry> entries,
      OnExisting on_existing = OnExisting::kFail) const;

  absl::StatusOr<PushResult> Push(const std::string& key, Tensor tensor,
                                  Step step = 0) const;
  absl::StatusOr<PushResult> Skip(const std::string& key, Step step) const;
  absl::StatusOr<PushReply> PushMany(std::vector<PushEntry> entries,
                                     Step step = 0) const;

  absl::StatusOr<Value> Pull(const std::string& key,
                             Version min_version = 0) const;
  // Waits for the key to appear, too.
  absl::StatusOr<Value> Await(const std::string& key,
                              Version min_version = 0) const;
  absl::StatusOr<PullReply> PullMany(std::vector<PullEntry> entries,
                                     bool wait_for_keys = false) const;

  absl::StatusOr<PullReply> PullAs(DType dtype,
                                   std::vector<PullEntry> entries) const;

  absl::StatusOr<Value> PushPull(const std::string& key, Tensor tensor,
                                 Step step = 0) const;
  absl::StatusOr<PullReply> PushPullMany(std::vector<PushEntry> entries,
                                         Step step = 0) const;
  absl::StatusOr<PullReply> PushPullAs(DType dtype,
                                       std::vector<PushEntry> entries,
                                       Step step = 0) const;

  absl::StatusOr<Version> SetState(const std::string& key,
                                   const std::string& state,
                                   Tensor tensor) const;
  absl::StatusOr<SetStateReply> SetStates(
      std::vector<SetStateEntry> entries) const;
  absl::StatusOr<Value> GetState(const std::string& key,
                                 const std::string& state) const;
  absl::StatusOr<GetStateReply> GetStates(
      std::vector<GetStateEntry> entries) const;

  absl::StatusOr<PushReply> PushRows(std::vector<PushEntry> entries,
                                     Step step = 0) const;
  absl::StatusOr<PullReply> PullRows(std::vector<PullEntry> entries,
                                     bool wait_for_keys = false) const;

  absl::StatusOr<uint64_t> Delete(const std::vector<std::string>& keys,
                                  bool allow_missing = false) const;
  absl::StatusOr<KeyStatus> Stat(const std::string& key,
                                 bool compute_digests = false) const;
  absl::StatusOr<std::vector<KeyStatus>> StatMany(
      const std::vector<std::string>& keys) const;
  absl::StatusOr<ListReply> List(const std::string& prefix = "",
                                 uint32_t page_size = 0,
                                 const std::string& page_token = "") const;

  // The same caller as the worker that has joined.
  absl::StatusOr<Caller> Join(const std::string& name,
                              absl::Duration lease = absl::Minutes(5)) const;
  absl::StatusOr<JoinReply> TryJoin(const std::string& name,
                                    absl::Duration lease) const;
  absl::StatusOr<KeepAliveReply> KeepAlive() const;
  absl::Status Leave() const;
  // Leaves as one that is lost.
  absl::Status Fail() const;
  absl::Status Barrier(const std::string& name) const;
  // REQUIRES: As, or Join.
  const Worker& worker() const { return *worker_; }

  absl::Status Create(const NamespaceConfig& config,
                      OnExisting on_existing = OnExisting::kFail) const;
  absl::StatusOr<NamespaceConfig> Update(
      const NamespaceConfig& config,
      const std::vector<std::string>& update_mask) const;
  absl::StatusOr<NamespaceStatus> Describe() const;
  absl::Status Drop() const;
  // `rule` in the form of RuleSpec::ToString.
  absl::Status SetRule(absl::string_view rule,
                       const std::string& key_pattern = "") const;
  absl::Status UnsetRule(const std::string& key_pattern) const;
  absl::Status SetMultipliers(const Multipliers& multipliers,
                              const std::string& key_pattern) const;
  absl::Status UnsetMultipliers(const std::string& key_pattern) const;
  absl::StatusOr<RuleSpec> SetHyperparameters(
      const Hyperparameters& hyperparameters,
      const std::string& key_pattern = "") const;

 private:
  PushRequest MakePush(std::vector<PushEntry> entries, Step step) const;
  PullRequest MakePull(std::vector<PullEntry> entries,
                       bool wait_for_keys) const;

  Connection* connection_;
  std::string name_space_;
  std::optional<Worker> worker_;
  CallOptions options_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_CALLER_H_

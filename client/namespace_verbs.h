// Has the verbs about a client's namespace that carry no tensors.

#ifndef TENSORKV_CLIENT_NAMESPACE_VERBS_H_
#define TENSORKV_CLIENT_NAMESPACE_VERBS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/server_verbs.h"
#include "contract/requests.h"
#include "tensor/rule_spec.h"

namespace tensorkv {

// NamespaceVerbs has the verbs about namespaces of every Client; see there for
// threads, deadlines and errors.
class NamespaceVerbs : public ServerVerbs {
 public:
  // Returns the namespace of the client's options.
  const std::string& name_space() const { return *name_space_; }

  // Removes keys, and returns how many there were. Where the namespace has no
  // memory left to remember the call, makes it again without a call_id: then it
  // is not repeated if the connection breaks, and may or may not have been
  // applied. That second call passes over keys that are missing, since servers
  // of a cluster may have removed theirs, and only what it removes is counted.
  absl::StatusOr<uint64_t> Delete(std::vector<std::string> keys,
                                  bool allow_missing = false);
  // Returns one page of keys. The request's namespace is filled in.
  absl::StatusOr<ListReply> List(ListRequest request = {});
  // Returns all pages of the keys that begin with `prefix`, within one timeout.
  // They are not of one moment: keys that come or go meanwhile may be among
  // them or not. Takes as much memory as what the server sends, which nothing
  // bounds but that timeout. With `at` they are what one snapshot has of them.
  absl::StatusOr<std::vector<KeyStatus>> ListAll(
      absl::string_view prefix = "",
      const std::optional<SnapshotReference>& at = std::nullopt);
  // Returns the status of each key; `compute_digests` adds the digest of its
  // value.
  // Errors: NotFound if one of the keys does not exist.
  absl::StatusOr<std::vector<KeyStatus>> Stat(std::vector<std::string> keys,
                                              bool compute_digests = false);

  // Returns what the server tells of keys, with `at` as a snapshot has them.
  // The request's namespace is filled in.
  absl::StatusOr<StatReply> Stat(StatRequest request);

  // The verbs of TENSORKV_SNAPSHOT_METHODS: CreateSnapshot(request),
  // ListSnapshots(request), DescribeSnapshot(request), ...; snapshot.proto
  // explains them. The request's namespace is filled in.
  // contract/snapshot_references.h makes the references that they take, and
  // that PullRequest::at and ListRequest's `at` take.
#define TENSORKV_VERB(name, ...)                            \
  absl::StatusOr<name##Reply> name(name##Request request) { \
    return Call(std::move(request));                        \
  }
  TENSORKV_SNAPSHOT_METHODS(TENSORKV_VERB)
#undef TENSORKV_VERB
  // Returns all pages of the snapshots of series that begin with
  // `series_prefix`, within one timeout.
  absl::StatusOr<std::vector<v1::SnapshotStatus>> ListAllSnapshots(
      absl::string_view series_prefix = "");

  // Returns one page of what the steps of a sync namespace were, the newest
  // first; step.proto explains it. The request's namespace is filled in.
  absl::StatusOr<DescribeStepsReply> DescribeSteps(
      DescribeStepsRequest request = {}) {
    return Call(std::move(request));
  }
  // Returns the newest `max_steps` of the steps from `first_step` to
  // `last_step`, the newest first, within one timeout. 0: no bound.
  absl::StatusOr<std::vector<v1::StepRecord>> DescribeNewestSteps(
      uint64_t max_steps = 0, uint64_t first_step = 0, uint64_t last_step = 0);

  // Sets the rule by which pushes update all keys, or those that match the
  // pattern; SetMultipliers sets what multiplies their rates. The others remove
  // what was set for exactly that pattern. Errors: NotFound if there is none.
  absl::Status SetRule(const RuleSpec& rule,
                       absl::string_view key_pattern = "");
  absl::Status UnsetRule(absl::string_view key_pattern);
  absl::Status SetMultipliers(const Multipliers& multipliers,
                              absl::string_view key_pattern);
  absl::Status UnsetMultipliers(absl::string_view key_pattern);
  // Sets these hyperparameters of the rule of exactly that pattern; the others
  // stay. Returns the rule as it is then.
  absl::StatusOr<RuleSpec> SetHyperparameters(
      const Hyperparameters& hyperparameters,
      absl::string_view key_pattern = "");

  // Makes a call by its request, as ServerVerbs does, for verbs without a
  // method of their own. One of TENSORKV_NAMESPACE_METHODS is about the
  // client's namespace, whatever its request says. A Join made so tells the
  // server alone: the client is no worker by it.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Call(Request request) {
    if constexpr (kIsOfNamespace<Request>) {
      SetNamespace(*name_space_, request);
    }
    return ServerVerbs::Call(std::move(request));
  }

 protected:
  NamespaceVerbs(std::shared_ptr<ClientCalls> calls,
                 std::shared_ptr<const std::string> name_space,
                 CallOptions call_options)
      : ServerVerbs(std::move(calls), std::move(call_options)),
        name_space_(std::move(name_space)) {}
  ~NamespaceVerbs() = default;

 private:
  std::shared_ptr<const std::string> name_space_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_NAMESPACE_VERBS_H_

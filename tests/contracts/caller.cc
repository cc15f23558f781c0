#include "tests/contracts/caller.h"

#include <utility>

#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "tests/testing/key_requests.h"
#include "tests/testing/namespace_requests.h"
#include "tests/testing/rule_requests.h"
#include "tests/testing/worker_requests.h"

namespace tensorkv::testing {

Caller Caller::In(std::string name_space) const {
  Caller other = *this;
  other.name_space_ = std::move(name_space);
  return other;
}

Caller Caller::As(uint32_t rank) const { return As(Worker{.rank = rank}); }

Caller Caller::As(const Worker& worker) const {
  Caller other = *this;
  other.worker_ = worker;
  return other;
}

Caller Caller::WithTimeout(absl::Duration timeout) const {
  Caller other = *this;
  other.options_.timeout = timeout;
  return other;
}

Caller Caller::EndedBy(std::shared_ptr<Canceller> canceller) const {
  Caller other = *this;
  other.options_.canceller = std::move(canceller);
  return other;
}

absl::StatusOr<Version> Caller::Init(const std::string& key, Tensor tensor,
                                     OnExisting on_existing) const {
  ASSIGN_OR_RETURN(InitReply reply,
                   InitMany({{key, std::move(tensor)}}, on_existing));
  return reply.versions.at(0);
}

absl::StatusOr<InitReply> Caller::InitMany(std::vector<InitEntry> entries,
                                           OnExisting on_existing) const {
  return connection_->Call(InitRequest{.name_space = name_space_,
                                       .on_existing = on_existing,
                                       .entries = std::move(entries)},
                           options_);
}

absl::StatusOr<PushResult> Caller::Push(const std::string& key, Tensor tensor,
                                        Step step) const {
  ASSIGN_OR_RETURN(PushReply reply,
                   PushMany({{.key = key, .tensor = std::move(tensor)}}, step));
  return reply.results.at(0);
}

absl::StatusOr<PushResult> Caller::Skip(const std::string& key,
                                        Step step) const {
  ASSIGN_OR_RETURN(PushReply reply,
                   PushMany({{.key = key, .skip = true}}, step));
  return reply.results.at(0);
}

absl::StatusOr<PushReply> Caller::PushMany(std::vector<PushEntry> entries,
                                           Step step) const {
  return connection_->Call(MakePush(std::move(entries), step), options_);
}

absl::StatusOr<Value> Caller::Pull(const std::string& key,
                                   Version min_version) const {
  ASSIGN_OR_RETURN(PullReply reply, PullMany({{key, min_version}}));
  return reply.values.at(0);
}

absl::StatusOr<Value> Caller::Await(const std::string& key,
                                    Version min_version) const {
  ASSIGN_OR_RETURN(PullReply reply,
                   PullMany({{key, min_version}}, /*wait_for_keys=*/true));
  return reply.values.at(0);
}

absl::StatusOr<PullReply> Caller::PullMany(std::vector<PullEntry> entries,
                                           bool wait_for_keys) const {
  return connection_->Call(MakePull(std::move(entries), wait_for_keys),
                           options_);
}

absl::StatusOr<PullReply> Caller::PullAs(DType dtype,
                                         std::vector<PullEntry> entries) const {
  PullRequest request = MakePull(std::move(entries), /*wait_for_keys=*/false);
  request.dtype = dtype;
  return connection_->Call(request, options_);
}

PullRequest Caller::MakePull(std::vector<PullEntry> entries,
                             bool wait_for_keys) const {
  return {.name_space = name_space_,
          .worker = worker_,
          .wait_for_keys = wait_for_keys,
          .entries = std::move(entries)};
}

absl::StatusOr<PushReply> Caller::PushRows(std::vector<PushEntry> entries,
                                           Step step) const {
  return connection_->Call(PushRowsRequest{MakePush(std::move(entries), step)},
                           options_);
}

absl::StatusOr<PullReply> Caller::PullRows(std::vector<PullEntry> entries,
                                           bool wait_for_keys) const {
  return connection_->Call(
      PullRowsRequest{MakePull(std::move(entries), wait_for_keys)}, options_);
}

absl::StatusOr<Value> Caller::PushPull(const std::string& key, Tensor tensor,
                                       Step step) const {
  ASSIGN_OR_RETURN(
      PullReply reply,
      PushPullMany({{.key = key, .tensor = std::move(tensor)}}, step));
  return reply.values.at(0);
}

absl::StatusOr<PullReply> Caller::PushPullMany(std::vector<PushEntry> entries,
                                               Step step) const {
  return connection_->Call(PushPullRequest{MakePush(std::move(entries), step)},
                           options_);
}

absl::StatusOr<PullReply> Caller::PushPullAs(DType dtype,
                                             std::vector<PushEntry> entries,
                                             Step step) const {
  PushPullRequest request = {MakePush(std::move(entries), step)};
  request.dtype = dtype;
  return connection_->Call(request, options_);
}

absl::StatusOr<Version> Caller::SetState(const std::string& key,
                                         const std::string& state,
                                         Tensor tensor) const {
  ASSIGN_OR_RETURN(SetStateReply reply,
                   SetStates({{key, state, std::move(tensor)}}));
  return reply.versions.at(0);
}

absl::StatusOr<SetStateReply> Caller::SetStates(
    std::vector<SetStateEntry> entries) const {
  return connection_->Call(
      SetStateRequest{.name_space = name_space_, .entries = std::move(entries)},
      options_);
}

absl::StatusOr<Value> Caller::GetState(const std::string& key,
                                       const std::string& state) const {
  ASSIGN_OR_RETURN(GetStateReply reply, GetStates({{key, state}}));
  return reply.values.at(0);
}

absl::StatusOr<GetStateReply> Caller::GetStates(
    std::vector<GetStateEntry> entries) const {
  return connection_->Call(GetStateRequest{.name_space = name_space_,
                                           .worker = worker_,
                                           .entries = std::move(entries)},
                           options_);
}

absl::StatusOr<uint64_t> Caller::Delete(const std::vector<std::string>& keys,
                                        bool allow_missing) const {
  DeleteRequest request = DeleteOf(keys, name_space_);
  request.set_allow_missing(allow_missing);
  ASSIGN_OR_RETURN(const DeleteReply reply,
                   connection_->Call(request, options_));
  return reply.num_deleted();
}

absl::StatusOr<KeyStatus> Caller::Stat(const std::string& key,
                                       bool compute_digests) const {
  StatRequest request = StatOf({key}, name_space_);
  request.set_compute_digests(compute_digests);
  ASSIGN_OR_RETURN(const StatReply reply, connection_->Call(request, options_));
  return reply.keys(0);
}

absl::StatusOr<std::vector<KeyStatus>> Caller::StatMany(
    const std::vector<std::string>& keys) const {
  ASSIGN_OR_RETURN(const StatReply reply,
                   connection_->Call(StatOf(keys, name_space_), options_));
  return std::vector<KeyStatus>(reply.keys().begin(), reply.keys().end());
}

absl::StatusOr<ListReply> Caller::List(const std::string& prefix,
                                       uint32_t page_size,
                                       const std::string& page_token) const {
  ListRequest request;
  request.set_namespace_(name_space_);
  request.set_prefix(prefix);
  request.set_page_size(page_size);
  request.set_page_token(page_token);
  return connection_->Call(request, options_);
}

absl::StatusOr<JoinReply> Caller::TryJoin(const std::string& name,
                                          absl::Duration lease) const {
  return connection_->Call(JoinOf(name_space_, name, lease), options_);
}

absl::StatusOr<Caller> Caller::Join(const std::string& name,
                                    absl::Duration lease) const {
  ASSIGN_OR_RETURN(const JoinReply reply, TryJoin(name, lease));
  return As(WorkerOf(reply.worker()));
}

absl::StatusOr<KeepAliveReply> Caller::KeepAlive() const {
  return connection_->Call(
      RequestOfMember<KeepAliveRequest>(name_space_, worker()), options_);
}

absl::Status Caller::Leave() const {
  return connection_
      ->Call(RequestOfMember<LeaveRequest>(name_space_, worker()), options_)
      .status();
}

absl::Status Caller::Fail() const {
  return connection_->Call(FailureOf(name_space_, worker()), options_).status();
}

absl::Status Caller::Barrier(const std::string& name) const {
  return connection_->Call(BarrierOf(name_space_, worker(), name), options_)
      .status();
}

absl::Status Caller::Create(const NamespaceConfig& config,
                            OnExisting on_existing) const {
  return connection_->Call(CreateOf(name_space_, config, on_existing), options_)
      .status();
}

absl::StatusOr<NamespaceConfig> Caller::Update(
    const NamespaceConfig& config,
    const std::vector<std::string>& update_mask) const {
  ASSIGN_OR_RETURN(
      const UpdateNamespaceReply reply,
      connection_->Call(UpdateOf(name_space_, config, update_mask), options_));
  return FromProto(reply.config());
}

absl::StatusOr<NamespaceStatus> Caller::Describe() const {
  ASSIGN_OR_RETURN(const DescribeNamespaceReply reply,
                   connection_->Call(DescribeOf(name_space_), options_));
  return reply.status();
}

absl::Status Caller::Drop() const {
  return connection_->Call(RemoveOf(name_space_), options_).status();
}

absl::Status Caller::SetRule(absl::string_view rule,
                             const std::string& key_pattern) const {
  ASSIGN_OR_RETURN(const RuleSpec spec, ParseRuleSpec(rule));
  return connection_->Call(SetRuleOf(spec, key_pattern, name_space_), options_)
      .status();
}

absl::Status Caller::UnsetRule(const std::string& key_pattern) const {
  return connection_
      ->Call(OfPattern<UnsetRuleRequest>(key_pattern, name_space_), options_)
      .status();
}

absl::Status Caller::SetMultipliers(const Multipliers& multipliers,
                                    const std::string& key_pattern) const {
  return connection_
      ->Call(SetMultipliersOf(multipliers, key_pattern, name_space_), options_)
      .status();
}

absl::Status Caller::UnsetMultipliers(const std::string& key_pattern) const {
  return connection_
      ->Call(OfPattern<UnsetMultipliersRequest>(key_pattern, name_space_),
             options_)
      .status();
}

absl::StatusOr<RuleSpec> Caller::SetHyperparameters(
    const Hyperparameters& hyperparameters,
    const std::string& key_pattern) const {
  ASSIGN_OR_RETURN(
      const SetHyperparametersReply reply,
      connection_->Call(
          SetHyperparametersOf(hyperparameters, key_pattern, name_space_),
          options_));
  return FromProto(reply.rule());
}

PushRequest Caller::MakePush(std::vector<PushEntry> entries, Step step) const {
  return {.name_space = name_space_,
          .worker = worker_,
          .step = step,
          .entries = std::move(entries)};
}

}  // namespace tensorkv::testing

#include "client/namespace_verbs.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/status_macros.h"
#include "client/internal/calls/client_calls.h"
#include "client/internal/calls/next_page.h"
#include "client/internal/steady_now.h"
#include "contract/proto_codec.h"

namespace tensorkv {
namespace {

template <typename Request>
Request RequestForPattern(absl::string_view key_pattern) {
  Request request;
  request.set_key_pattern(std::string(key_pattern));
  return request;
}

template <typename Request>
void SetKeys(std::vector<std::string> keys, Request& request) {
  request.mutable_keys()->Assign(std::make_move_iterator(keys.begin()),
                                 std::make_move_iterator(keys.end()));
}

}  // namespace

absl::StatusOr<uint64_t> NamespaceVerbs::Delete(std::vector<std::string> keys,
                                                bool allow_missing) {
  const absl::Duration end = SteadyNow() + call_options_.timeout;
  DeleteRequest request;
  request.set_namespace_(*name_space_);
  SetKeys(std::move(keys), request);
  request.set_allow_missing(allow_missing);
  absl::StatusOr<DeleteReply> reply = calls_->Call(request, call_options_);
  if (absl::IsResourceExhausted(reply.status())) {
    // Maybe there is no memory to remember the call: what frees memory must not
    // need it. Some servers of a cluster may have removed their keys.
    request.clear_call_id();
    request.set_allow_missing(true);
    reply = calls_->Send(request, OptionsWithTimeout(end - SteadyNow()));
  }
  RETURN_IF_ERROR(reply.status());
  return reply->num_deleted();
}

absl::StatusOr<ListReply> NamespaceVerbs::List(ListRequest request) {
  request.set_namespace_(*name_space_);
  return calls_->Call(request, call_options_);
}

absl::StatusOr<std::vector<KeyStatus>> NamespaceVerbs::ListAll(
    absl::string_view prefix, const std::optional<SnapshotReference>& at) {
  const absl::Duration end = SteadyNow() + call_options_.timeout;
  std::vector<KeyStatus> keys;
  ListRequest request;
  request.set_namespace_(*name_space_);
  request.set_prefix(std::string(prefix));
  if (at) *request.mutable_at() = *at;
  do {
    ASSIGN_OR_RETURN(
        ListReply page,
        calls_->Call(request, OptionsWithTimeout(end - SteadyNow())));
    absl::c_move(*page.mutable_keys(), std::back_inserter(keys));
    if (at) request.mutable_at()->set_number(page.snapshot_number());
    RETURN_IF_ERROR(NextPage(page.next_page_token(), request));
  } while (!request.page_token().empty());
  return keys;
}

absl::StatusOr<StatReply> NamespaceVerbs::Stat(StatRequest request) {
  request.set_namespace_(*name_space_);
  return calls_->Call(request, call_options_);
}

absl::StatusOr<std::vector<KeyStatus>> NamespaceVerbs::Stat(
    std::vector<std::string> keys, bool compute_digests) {
  StatRequest request;
  SetKeys(std::move(keys), request);
  request.set_compute_digests(compute_digests);
  ASSIGN_OR_RETURN(StatReply reply, Stat(std::move(request)));
  return std::vector<KeyStatus>(
      std::make_move_iterator(reply.mutable_keys()->begin()),
      std::make_move_iterator(reply.mutable_keys()->end()));
}

absl::StatusOr<std::vector<v1::SnapshotStatus>>
NamespaceVerbs::ListAllSnapshots(absl::string_view series_prefix) {
  const absl::Duration end = SteadyNow() + call_options_.timeout;
  std::vector<v1::SnapshotStatus> snapshots;
  ListSnapshotsRequest request;
  request.set_namespace_(*name_space_);
  request.set_series_prefix(std::string(series_prefix));
  do {
    ASSIGN_OR_RETURN(
        ListSnapshotsReply page,
        calls_->Call(request, OptionsWithTimeout(end - SteadyNow())));
    absl::c_move(*page.mutable_snapshots(), std::back_inserter(snapshots));
    RETURN_IF_ERROR(NextPage(page.next_page_token(), request));
  } while (!request.page_token().empty());
  return snapshots;
}

absl::StatusOr<std::vector<v1::StepRecord>> NamespaceVerbs::DescribeNewestSteps(
    uint64_t max_steps, uint64_t first_step, uint64_t last_step) {
  // That of a page that is as long as can be.
  constexpr uint64_t kMaxSteps = 128;
  const absl::Duration end = SteadyNow() + call_options_.timeout;
  const uint64_t wanted = max_steps == 0 ? UINT64_MAX : max_steps;
  std::vector<v1::StepRecord> steps;
  DescribeStepsRequest request;
  request.set_namespace_(*name_space_);
  request.set_first_step(first_step);
  request.set_last_step(last_step);
  do {
    request.set_page_size(
        static_cast<uint32_t>(std::min(kMaxSteps, wanted - steps.size())));
    ASSIGN_OR_RETURN(
        DescribeStepsReply page,
        calls_->Call(request, OptionsWithTimeout(end - SteadyNow())));
    absl::c_move(*page.mutable_steps(), std::back_inserter(steps));
    RETURN_IF_ERROR(NextPage(page.next_page_token(), request));
  } while (!request.page_token().empty() && steps.size() < wanted);
  return steps;
}

absl::Status NamespaceVerbs::SetRule(const RuleSpec& rule,
                                     absl::string_view key_pattern) {
  auto request = RequestForPattern<SetRuleRequest>(key_pattern);
  ToProto(rule, request.mutable_rule());
  return Call(std::move(request)).status();
}

absl::Status NamespaceVerbs::UnsetRule(absl::string_view key_pattern) {
  return Call(RequestForPattern<UnsetRuleRequest>(key_pattern)).status();
}

absl::Status NamespaceVerbs::SetMultipliers(const Multipliers& multipliers,
                                            absl::string_view key_pattern) {
  auto request = RequestForPattern<SetMultipliersRequest>(key_pattern);
  ToProto(multipliers, request.mutable_multipliers());
  return Call(std::move(request)).status();
}

absl::Status NamespaceVerbs::UnsetMultipliers(absl::string_view key_pattern) {
  return Call(RequestForPattern<UnsetMultipliersRequest>(key_pattern)).status();
}

absl::StatusOr<RuleSpec> NamespaceVerbs::SetHyperparameters(
    const Hyperparameters& hyperparameters, absl::string_view key_pattern) {
  auto request = RequestForPattern<SetHyperparametersRequest>(key_pattern);
  request.mutable_hyperparameters()->insert(hyperparameters.begin(),
                                            hyperparameters.end());
  ASSIGN_OR_RETURN(const SetHyperparametersReply reply,
                   Call(std::move(request)));
  return FromProto(reply.rule());
}

}  // namespace tensorkv

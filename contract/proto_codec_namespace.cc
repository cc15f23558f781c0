#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/proto_codec_fields.h"

namespace tensorkv {
namespace {

absl::Status UnknownNumber(absl::string_view field, int number) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": unknown number ", number));
}

Mode DecodeMode(v1::Mode proto) {
  switch (proto) {
    case v1::MODE_UNSPECIFIED:
    case v1::MODE_ASYNC:
      return Mode::kAsync;
    case v1::MODE_SYNC:
      return Mode::kSync;
    case v1::MODE_BOUNDED:
      return Mode::kBounded;
    default:
      return Mode::kUnknown;
  }
}

v1::Mode EncodeMode(Mode mode) {
  switch (mode) {
    case Mode::kAsync:
      return v1::MODE_ASYNC;
    case Mode::kSync:
      return v1::MODE_SYNC;
    case Mode::kBounded:
      return v1::MODE_BOUNDED;
    case Mode::kUnknown:
      break;
  }
  return v1::MODE_UNSPECIFIED;
}

OnWorkerLoss DecodeOnWorkerLoss(v1::OnWorkerLoss proto) {
  switch (proto) {
    case v1::ON_WORKER_LOSS_UNSPECIFIED:
    case v1::ON_WORKER_LOSS_FAIL:
      return OnWorkerLoss::kFail;
    case v1::ON_WORKER_LOSS_CONTINUE:
      return OnWorkerLoss::kContinue;
    default:
      return OnWorkerLoss::kUnknown;
  }
}

v1::OnWorkerLoss EncodeOnWorkerLoss(OnWorkerLoss on_worker_loss) {
  switch (on_worker_loss) {
    case OnWorkerLoss::kFail:
      return v1::ON_WORKER_LOSS_FAIL;
    case OnWorkerLoss::kContinue:
      return v1::ON_WORKER_LOSS_CONTINUE;
    case OnWorkerLoss::kUnknown:
      break;
  }
  return v1::ON_WORKER_LOSS_UNSPECIFIED;
}

OnNonFinite DecodeOnNonFinite(v1::OnNonFinite proto) {
  switch (proto) {
    case v1::ON_NON_FINITE_UNSPECIFIED:
    case v1::ON_NON_FINITE_APPLY:
      return OnNonFinite::kApply;
    case v1::ON_NON_FINITE_COUNT:
      return OnNonFinite::kCount;
    case v1::ON_NON_FINITE_SKIP:
      return OnNonFinite::kSkip;
    case v1::ON_NON_FINITE_REFUSE:
      return OnNonFinite::kRefuse;
    default:
      return OnNonFinite::kUnknown;
  }
}

v1::OnNonFinite EncodeOnNonFinite(OnNonFinite on_non_finite) {
  switch (on_non_finite) {
    case OnNonFinite::kApply:
      return v1::ON_NON_FINITE_APPLY;
    case OnNonFinite::kCount:
      return v1::ON_NON_FINITE_COUNT;
    case OnNonFinite::kSkip:
      return v1::ON_NON_FINITE_SKIP;
    case OnNonFinite::kRefuse:
      return v1::ON_NON_FINITE_REFUSE;
    case OnNonFinite::kUnknown:
      break;
  }
  return v1::ON_NON_FINITE_UNSPECIFIED;
}

OnLargeNorm DecodeOnLargeNorm(v1::OnLargeNorm proto) {
  switch (proto) {
    case v1::ON_LARGE_NORM_UNSPECIFIED:
    case v1::ON_LARGE_NORM_CLIP:
      return OnLargeNorm::kClip;
    case v1::ON_LARGE_NORM_REFUSE:
      return OnLargeNorm::kRefuse;
    default:
      return OnLargeNorm::kUnknown;
  }
}

v1::OnLargeNorm EncodeOnLargeNorm(OnLargeNorm on_large_norm) {
  switch (on_large_norm) {
    case OnLargeNorm::kClip:
      return v1::ON_LARGE_NORM_CLIP;
    case OnLargeNorm::kRefuse:
      return v1::ON_LARGE_NORM_REFUSE;
    case OnLargeNorm::kUnknown:
      break;
  }
  return v1::ON_LARGE_NORM_UNSPECIFIED;
}

Aggregation DecodeAggregation(v1::Aggregation proto) {
  switch (proto) {
    case v1::AGGREGATION_UNSPECIFIED:
    case v1::AGGREGATION_SUM:
      return Aggregation::kSum;
    case v1::AGGREGATION_MEDIAN:
      return Aggregation::kMedian;
    case v1::AGGREGATION_TRIMMED_MEAN:
      return Aggregation::kTrimmedMean;
    default:
      return Aggregation::kUnknown;
  }
}

v1::Aggregation EncodeAggregation(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::kSum:
      return v1::AGGREGATION_SUM;
    case Aggregation::kMedian:
      return v1::AGGREGATION_MEDIAN;
    case Aggregation::kTrimmedMean:
      return v1::AGGREGATION_TRIMMED_MEAN;
    case Aggregation::kUnknown:
      break;
  }
  return v1::AGGREGATION_UNSPECIFIED;
}

// Errors: InvalidArgument, with the number that is unknown here.
absl::Status CheckIsKnown(const NamespaceConfig& config,
                          const v1::NamespaceConfig& proto) {
  if (config.mode == Mode::kUnknown) return UnknownNumber("mode", proto.mode());
  if (config.on_worker_loss == OnWorkerLoss::kUnknown) {
    return UnknownNumber("on_worker_loss", proto.on_worker_loss());
  }
  if (config.aggregation == Aggregation::kUnknown) {
    return UnknownNumber("aggregation", proto.aggregation());
  }
  const v1::GradientGuard& guard = proto.gradient_guard();
  if (config.gradient_guard.on_non_finite == OnNonFinite::kUnknown) {
    return UnknownNumber("on_non_finite", guard.on_non_finite());
  }
  if (config.gradient_guard.on_large_norm == OnLargeNorm::kUnknown) {
    return UnknownNumber("on_large_norm", guard.on_large_norm());
  }
  return absl::OkStatus();
}

GradientGuard DecodeGuard(const v1::GradientGuard& proto) {
  return {.on_non_finite = DecodeOnNonFinite(proto.on_non_finite()),
          .max_norm = proto.max_norm(),
          .on_large_norm = DecodeOnLargeNorm(proto.on_large_norm()),
          .max_call_norm = proto.max_call_norm()};
}

void EncodeGuard(const GradientGuard& guard, v1::NamespaceConfig* proto) {
  if (guard == GradientGuard()) return;
  v1::GradientGuard* const out = proto->mutable_gradient_guard();
  out->set_on_non_finite(EncodeOnNonFinite(guard.on_non_finite));
  out->set_max_norm(guard.max_norm);
  out->set_on_large_norm(EncodeOnLargeNorm(guard.on_large_norm));
  out->set_max_call_norm(guard.max_call_norm);
}

absl::StatusOr<NamespaceConfig> DecodeConfig(const v1::NamespaceConfig& proto) {
  NamespaceConfig config;
  config.mode = DecodeMode(proto.mode());
  config.num_workers = proto.num_workers();
  config.max_workers = proto.max_workers();
  if (proto.has_rule()) config.rule = FromProto(proto.rule());
  config.budget_bytes = proto.budget_bytes();
  config.staleness = proto.staleness();
  config.on_worker_loss = DecodeOnWorkerLoss(proto.on_worker_loss());
  config.rescale_partial_rounds = proto.rescale_partial_rounds();
  config.quorum = proto.quorum();
  ASSIGN_OR_RETURN(config.quorum_grace,
                   DecodeDuration("quorum_grace", proto.quorum_grace()));
  config.max_open_rounds = proto.max_open_rounds();
  config.gradient_guard = DecodeGuard(proto.gradient_guard());
  config.aggregation = DecodeAggregation(proto.aggregation());
  config.trim_fraction = proto.trim_fraction();
  config.mirrored = proto.mirrored();
  return config;
}

void EncodeConfig(const NamespaceConfig& config, v1::NamespaceConfig* proto) {
  proto->set_mode(EncodeMode(config.mode));
  proto->set_num_workers(config.num_workers);
  proto->set_max_workers(config.max_workers);
  ToProto(config.rule, proto->mutable_rule());
  proto->set_budget_bytes(config.budget_bytes);
  proto->set_staleness(config.staleness);
  proto->set_on_worker_loss(EncodeOnWorkerLoss(config.on_worker_loss));
  proto->set_rescale_partial_rounds(config.rescale_partial_rounds);
  proto->set_quorum(config.quorum);
  EncodeDuration(config.quorum_grace, proto->mutable_quorum_grace());
  proto->set_max_open_rounds(config.max_open_rounds);
  EncodeGuard(config.gradient_guard, proto);
  proto->set_aggregation(EncodeAggregation(config.aggregation));
  proto->set_trim_fraction(config.trim_fraction);
  proto->set_mirrored(config.mirrored);
}

// WAIT_REASON_KEY and the others follow WaitReason, from 1. A newer server may
// have others.
bool HasKnownReason(const v1::WaitStatus& proto) {
  return proto.reason() > v1::WAIT_REASON_UNSPECIFIED &&
         proto.reason() <= static_cast<int>(kNumWaitReasons);
}

absl::StatusOr<WaitStatus> DecodeWait(const v1::WaitStatus& proto) {
  WaitStatus status;
  status.reason = static_cast<WaitReason>(static_cast<int>(proto.reason()) - 1);
  status.calls_waiting = proto.calls_waiting();
  status.calls_ended = proto.calls_ended();
  ASSIGN_OR_RETURN(status.waited, DecodeDuration("waited", proto.waited()));
  return status;
}

void EncodeWait(const WaitStatus& status, v1::WaitStatus* proto) {
  proto->set_reason(
      static_cast<v1::WaitReason>(static_cast<int>(status.reason) + 1));
  proto->set_calls_waiting(status.calls_waiting);
  proto->set_calls_ended(status.calls_ended);
  EncodeDuration(status.waited, proto->mutable_waited());
}

MemoryUse DecodeMemoryUse(const v1::MemoryUse& proto) {
  return {.values = proto.values(),
          .state = proto.state(),
          .contributions = proto.contributions(),
          .metadata = proto.metadata()};
}

void EncodeMemoryUse(const MemoryUse& use, v1::MemoryUse* proto) {
  proto->set_values(use.values);
  proto->set_state(use.state);
  proto->set_contributions(use.contributions);
  proto->set_metadata(use.metadata);
}

}  // namespace

absl::StatusOr<CreateNamespaceRequest> FromProto(
    const v1::CreateNamespaceRequest& proto) {
  CreateNamespaceRequest request;
  request.name_space = proto.namespace_();
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.config, DecodeConfig(proto.config()));
  RETURN_IF_ERROR(CheckIsKnown(request.config, proto.config()));
  ASSIGN_OR_RETURN(request.on_existing, DecodeOnExisting(proto.on_existing()));
  request.call_id = DecodeCallId(proto);
  return request;
}

void ToProto(const CreateNamespaceRequest& request,
             v1::CreateNamespaceRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeConfig(request.config, proto->mutable_config());
  proto->set_on_existing(EncodeOnExisting(request.on_existing));
  EncodeCallId(request.call_id, proto);
}

absl::StatusOr<NamespaceStatus> FromProto(const v1::NamespaceStatus& proto) {
  NamespaceStatus status;
  status.name = proto.name();
  status.uid = proto.uid();
  status.revision = proto.revision();
  ASSIGN_OR_RETURN(status.config, DecodeConfig(proto.config()));
  status.rules.reserve(proto.rules_size());
  for (const v1::RuleBinding& binding : proto.rules()) {
    status.rules.push_back({binding.key_pattern(), FromProto(binding.rule())});
  }
  for (const v1::MultipliersBinding& binding : proto.multipliers()) {
    status.multipliers.push_back(
        {binding.key_pattern(), FromProto(binding.multipliers())});
  }
  status.num_keys = proto.num_keys();
  status.memory = DecodeMemoryUse(proto.memory());
  for (const v1::DeviceMemoryUse& each : proto.device_memory()) {
    status.device_memory.push_back(
        {each.device(), DecodeMemoryUse(each.memory())});
  }
  status.updates_applied = proto.updates_applied();
  status.rounds_open = proto.rounds_open();
  status.rounds_closed = proto.rounds_closed();
  status.rounds_failed = proto.rounds_failed();
  status.calls_waiting = proto.calls_waiting();
  status.live_workers = proto.live_workers();
  status.lease_expirations = proto.lease_expirations();
  status.contributions_late = proto.contributions_late();
  status.contributions_duplicate = proto.contributions_duplicate();
  status.contributions_fenced = proto.contributions_fenced();
  status.slowest_lag = proto.slowest_lag();
  ASSIGN_OR_RETURN(status.workers,
                   DecodeAll(proto.workers(), [](const v1::WorkerStatus& each) {
                     return FromProto(each);
                   }));
  for (const v1::GuardCounts& counts : proto.guard_counts()) {
    GuardCounts& out = status.guard_counts.emplace_back();
    if (counts.has_rank()) out.rank = counts.rank();
    out.not_finite = counts.not_finite();
    out.too_large = counts.too_large();
  }
  for (const v1::WaitStatus& wait : proto.waits()) {
    if (!HasKnownReason(wait)) continue;
    ASSIGN_OR_RETURN(status.waits.emplace_back(), DecodeWait(wait));
  }
  return status;
}

void ToProto(const NamespaceStatus& status, v1::NamespaceStatus* proto) {
  proto->set_name(status.name);
  proto->set_uid(status.uid);
  proto->set_revision(status.revision);
  EncodeConfig(status.config, proto->mutable_config());
  for (const RuleBinding& binding : status.rules) {
    v1::RuleBinding* out = proto->add_rules();
    out->set_key_pattern(binding.key_pattern);
    ToProto(binding.rule, out->mutable_rule());
  }
  for (const MultipliersBinding& binding : status.multipliers) {
    v1::MultipliersBinding* const out = proto->add_multipliers();
    out->set_key_pattern(binding.key_pattern);
    ToProto(binding.multipliers, out->mutable_multipliers());
  }
  proto->set_num_keys(status.num_keys);
  EncodeMemoryUse(status.memory, proto->mutable_memory());
  for (const DeviceMemoryUse& each : status.device_memory) {
    v1::DeviceMemoryUse* const out = proto->add_device_memory();
    out->set_device(each.device);
    EncodeMemoryUse(each.memory, out->mutable_memory());
  }
  proto->set_updates_applied(status.updates_applied);
  proto->set_rounds_open(status.rounds_open);
  proto->set_rounds_closed(status.rounds_closed);
  proto->set_rounds_failed(status.rounds_failed);
  proto->set_calls_waiting(status.calls_waiting);
  proto->set_live_workers(status.live_workers);
  proto->set_lease_expirations(status.lease_expirations);
  proto->set_contributions_late(status.contributions_late);
  proto->set_contributions_duplicate(status.contributions_duplicate);
  proto->set_contributions_fenced(status.contributions_fenced);
  proto->set_slowest_lag(status.slowest_lag);
  for (const WorkerStatus& worker : status.workers) {
    ToProto(worker, proto->add_workers());
  }
  for (const WaitStatus& wait : status.waits) {
    EncodeWait(wait, proto->add_waits());
  }
  for (const GuardCounts& counts : status.guard_counts) {
    v1::GuardCounts* const out = proto->add_guard_counts();
    if (counts.rank) out->set_rank(*counts.rank);
    out->set_not_finite(counts.not_finite);
    out->set_too_large(counts.too_large);
  }
}

absl::StatusOr<ListNamespacesRequest> FromProto(
    const v1::ListNamespacesRequest& proto) {
  return ListNamespacesRequest{.page_size = proto.page_size(),
                               .page_token = proto.page_token()};
}

void ToProto(const ListNamespacesRequest& request,
             v1::ListNamespacesRequest* proto) {
  proto->set_page_size(request.page_size);
  proto->set_page_token(request.page_token);
}

absl::StatusOr<ListNamespacesReply> FromProto(
    const v1::ListNamespacesResponse& proto) {
  ListNamespacesReply reply;
  ASSIGN_OR_RETURN(
      reply.namespaces,
      DecodeAll(proto.namespaces(), [](const v1::NamespaceStatus& each) {
        return FromProto(each);
      }));
  reply.next_page_token = proto.next_page_token();
  return reply;
}

void ToProto(const ListNamespacesReply& reply,
             v1::ListNamespacesResponse* proto) {
  for (const NamespaceStatus& status : reply.namespaces) {
    ToProto(status, proto->add_namespaces());
  }
  proto->set_next_page_token(reply.next_page_token);
}

absl::StatusOr<CreateNamespaceReply> FromProto(
    const v1::CreateNamespaceResponse& proto) {
  return CreateNamespaceReply{.uid = proto.uid()};
}

void ToProto(const CreateNamespaceReply& reply,
             v1::CreateNamespaceResponse* proto) {
  proto->set_uid(reply.uid);
}

absl::StatusOr<DescribeNamespaceRequest> FromProto(
    const v1::DescribeNamespaceRequest& proto) {
  return DescribeNamespaceRequest{.name_space = proto.namespace_(),
                                  .namespace_uid = proto.namespace_uid()};
}

void ToProto(const DescribeNamespaceRequest& request,
             v1::DescribeNamespaceRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
}

absl::StatusOr<NamespaceStatus> FromProto(
    const v1::DescribeNamespaceResponse& proto) {
  return FromProto(proto.status());
}

void ToProto(const NamespaceStatus& status,
             v1::DescribeNamespaceResponse* proto) {
  ToProto(status, proto->mutable_status());
}

absl::StatusOr<UpdateNamespaceRequest> FromProto(
    const v1::UpdateNamespaceRequest& proto) {
  UpdateNamespaceRequest request;
  request.name_space = proto.namespace_();
  request.namespace_uid = proto.namespace_uid();
  ASSIGN_OR_RETURN(request.config, DecodeConfig(proto.config()));
  RETURN_IF_ERROR(CheckIsKnown(request.config, proto.config()));
  const auto& paths = proto.update_mask().paths();
  request.update_mask = {paths.begin(), paths.end()};
  return request;
}

void ToProto(const UpdateNamespaceRequest& request,
             v1::UpdateNamespaceRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeConfig(request.config, proto->mutable_config());
  proto->mutable_update_mask()->mutable_paths()->Add(
      request.update_mask.begin(), request.update_mask.end());
}

absl::StatusOr<UpdateNamespaceReply> FromProto(
    const v1::UpdateNamespaceResponse& proto) {
  UpdateNamespaceReply reply;
  ASSIGN_OR_RETURN(reply.config, DecodeConfig(proto.config()));
  return reply;
}

void ToProto(const UpdateNamespaceReply& reply,
             v1::UpdateNamespaceResponse* proto) {
  EncodeConfig(reply.config, proto->mutable_config());
}

absl::StatusOr<DeleteNamespaceRequest> FromProto(
    const v1::DeleteNamespaceRequest& proto) {
  return DeleteNamespaceRequest{.name_space = proto.namespace_(),
                                .namespace_uid = proto.namespace_uid(),
                                .call_id = DecodeCallId(proto)};
}

void ToProto(const DeleteNamespaceRequest& request,
             v1::DeleteNamespaceRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  EncodeCallId(request.call_id, proto);
}

}  // namespace tensorkv

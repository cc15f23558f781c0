#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "contract/duration.h"
#include "contract/proto_codec.h"
#include "contract/proto_codec_fields.h"

namespace tensorkv {
namespace {

absl::Status UnknownNumber(absl::string_view field, int number) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": unknown number ", number));
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

}  // namespace

Mode FromProto(v1::Mode proto) {
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

absl::StatusOr<NamespaceConfig> FromProto(const v1::NamespaceConfig& proto) {
  NamespaceConfig config;
  config.mode = FromProto(proto.mode());
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

void ToProto(const NamespaceConfig& config, v1::NamespaceConfig* proto) {
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

absl::StatusOr<NamespaceConfig> KnownConfig(const v1::NamespaceConfig& proto) {
  ASSIGN_OR_RETURN(NamespaceConfig config, FromProto(proto));
  RETURN_IF_ERROR(CheckIsKnown(config, proto));
  return config;
}

}  // namespace tensorkv

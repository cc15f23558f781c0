#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "contract/duration.h"
#include "contract/proto_codec.h"

namespace tensorkv {
namespace {

absl::Status UnknownNumber(absl::string_view field, int number) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": unknown number ", number));
}

// Choices have the order of their numbers in the contract, which begin with 1;
// what is unspecified is the first.
template <typename Choice>
constexpr Choice DecodeChoice(int number) {
  if (number == 0) return Choice();
  const bool is_known =
      number > 0 && number <= static_cast<int>(Choice::kUnknown);
  return is_known ? static_cast<Choice>(number - 1) : Choice::kUnknown;
}
template <typename Proto, typename Choice>
constexpr Proto EncodeChoice(Choice choice) {
  return choice == Choice::kUnknown
             ? Proto()
             : static_cast<Proto>(static_cast<int>(choice) + 1);
}
template <typename Choice, typename Proto>
constexpr bool IsNumbered(Choice choice, Proto number) {
  return DecodeChoice<Choice>(number) == choice &&
         EncodeChoice<Proto>(choice) == number;
}
static_assert(IsNumbered(Mode::kAsync, v1::MODE_ASYNC));
static_assert(IsNumbered(Mode::kSync, v1::MODE_SYNC));
static_assert(IsNumbered(Mode::kBounded, v1::MODE_BOUNDED));
static_assert(IsNumbered(OnWorkerLoss::kFail, v1::ON_WORKER_LOSS_FAIL));
static_assert(IsNumbered(OnWorkerLoss::kContinue, v1::ON_WORKER_LOSS_CONTINUE));
static_assert(IsNumbered(OnNonFinite::kApply, v1::ON_NON_FINITE_APPLY));
static_assert(IsNumbered(OnNonFinite::kCount, v1::ON_NON_FINITE_COUNT));
static_assert(IsNumbered(OnNonFinite::kSkip, v1::ON_NON_FINITE_SKIP));
static_assert(IsNumbered(OnNonFinite::kRefuse, v1::ON_NON_FINITE_REFUSE));
static_assert(IsNumbered(OnLargeNorm::kClip, v1::ON_LARGE_NORM_CLIP));
static_assert(IsNumbered(OnLargeNorm::kRefuse, v1::ON_LARGE_NORM_REFUSE));
static_assert(IsNumbered(Aggregation::kSum, v1::AGGREGATION_SUM));
static_assert(IsNumbered(Aggregation::kMedian, v1::AGGREGATION_MEDIAN));
static_assert(IsNumbered(Aggregation::kTrimmedMean,
                         v1::AGGREGATION_TRIMMED_MEAN));
static_assert(IsNumbered(Aggregation::kMean, v1::AGGREGATION_MEAN));
static_assert(IsNumbered(SumOrder::kRank, v1::SUM_ORDER_RANK));
static_assert(IsNumbered(SumOrder::kArrival, v1::SUM_ORDER_ARRIVAL));
static_assert(IsNumbered(Late::kRefuse, v1::LATE_REFUSE));
static_assert(IsNumbered(Late::kCarry, v1::LATE_CARRY));

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
  if (config.sum_order == SumOrder::kUnknown) {
    return UnknownNumber("sum_order", proto.sum_order());
  }
  if (config.late == Late::kUnknown) return UnknownNumber("late", proto.late());
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
  return {.on_non_finite = DecodeChoice<OnNonFinite>(proto.on_non_finite()),
          .max_norm = proto.max_norm(),
          .on_large_norm = DecodeChoice<OnLargeNorm>(proto.on_large_norm()),
          .max_call_norm = proto.max_call_norm()};
}

void EncodeGuard(const GradientGuard& guard, v1::NamespaceConfig* proto) {
  if (guard == GradientGuard()) return;
  v1::GradientGuard* const out = proto->mutable_gradient_guard();
  out->set_on_non_finite(EncodeChoice<v1::OnNonFinite>(guard.on_non_finite));
  out->set_max_norm(guard.max_norm);
  out->set_on_large_norm(EncodeChoice<v1::OnLargeNorm>(guard.on_large_norm));
  out->set_max_call_norm(guard.max_call_norm);
}

}  // namespace

Mode FromProto(v1::Mode proto) { return DecodeChoice<Mode>(proto); }

absl::StatusOr<NamespaceConfig> FromProto(const v1::NamespaceConfig& proto) {
  NamespaceConfig config;
  config.mode = FromProto(proto.mode());
  config.num_workers = proto.num_workers();
  config.max_workers = proto.max_workers();
  if (proto.has_rule()) config.rule = FromProto(proto.rule());
  config.budget_bytes = proto.budget_bytes();
  config.staleness = proto.staleness();
  config.on_worker_loss = DecodeChoice<OnWorkerLoss>(proto.on_worker_loss());
  config.rescale_partial_rounds = proto.rescale_partial_rounds();
  config.quorum = proto.quorum();
  ASSIGN_OR_RETURN(config.quorum_grace,
                   DecodeDuration("quorum_grace", proto.quorum_grace()));
  config.max_open_rounds = proto.max_open_rounds();
  config.gradient_guard = DecodeGuard(proto.gradient_guard());
  config.aggregation = DecodeChoice<Aggregation>(proto.aggregation());
  config.trim_fraction = proto.trim_fraction();
  config.sum_order = DecodeChoice<SumOrder>(proto.sum_order());
  config.mirrored = proto.mirrored();
  config.max_retained_bytes = proto.max_retained_bytes();
  ASSIGN_OR_RETURN(config.round_timeout,
                   DecodeDuration("round_timeout", proto.round_timeout()));
  config.late = DecodeChoice<Late>(proto.late());
  config.staleness_decay = proto.staleness_decay();
  return config;
}

void ToProto(const NamespaceConfig& config, v1::NamespaceConfig* proto) {
  proto->set_mode(EncodeChoice<v1::Mode>(config.mode));
  proto->set_num_workers(config.num_workers);
  proto->set_max_workers(config.max_workers);
  ToProto(config.rule, proto->mutable_rule());
  proto->set_budget_bytes(config.budget_bytes);
  proto->set_staleness(config.staleness);
  proto->set_on_worker_loss(
      EncodeChoice<v1::OnWorkerLoss>(config.on_worker_loss));
  proto->set_rescale_partial_rounds(config.rescale_partial_rounds);
  proto->set_quorum(config.quorum);
  EncodeDuration(config.quorum_grace, proto->mutable_quorum_grace());
  proto->set_max_open_rounds(config.max_open_rounds);
  EncodeGuard(config.gradient_guard, proto);
  proto->set_aggregation(EncodeChoice<v1::Aggregation>(config.aggregation));
  proto->set_trim_fraction(config.trim_fraction);
  proto->set_sum_order(EncodeChoice<v1::SumOrder>(config.sum_order));
  proto->set_mirrored(config.mirrored);
  proto->set_max_retained_bytes(config.max_retained_bytes);
  EncodeDuration(config.round_timeout, proto->mutable_round_timeout());
  proto->set_late(EncodeChoice<v1::Late>(config.late));
  proto->set_staleness_decay(config.staleness_decay);
}

absl::StatusOr<NamespaceConfig> KnownConfig(const v1::NamespaceConfig& proto) {
  ASSIGN_OR_RETURN(NamespaceConfig config, FromProto(proto));
  RETURN_IF_ERROR(CheckIsKnown(config, proto));
  return config;
}

}  // namespace tensorkv

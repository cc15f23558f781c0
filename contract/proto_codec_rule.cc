#include "contract/proto_codec.h"
#include "contract/proto_codec_fields.h"

namespace tensorkv {
namespace {

using HyperparametersProto = google::protobuf::Map<std::string, double>;

Hyperparameters DecodeHyperparameters(const HyperparametersProto& proto) {
  return {proto.begin(), proto.end()};
}

void EncodeHyperparameters(const Hyperparameters& hyperparameters,
                           HyperparametersProto* proto) {
  proto->insert(hyperparameters.begin(), hyperparameters.end());
}

}  // namespace

Multipliers FromProto(const v1::Multipliers& proto) {
  Multipliers multipliers;
  if (proto.has_learning_rate()) {
    multipliers.learning_rate = proto.learning_rate();
  }
  if (proto.has_weight_decay()) multipliers.weight_decay = proto.weight_decay();
  return multipliers;
}

void ToProto(const Multipliers& multipliers, v1::Multipliers* proto) {
  proto->set_learning_rate(multipliers.learning_rate);
  proto->set_weight_decay(multipliers.weight_decay);
}

RuleSpec FromProto(const v1::Rule& proto) {
  RuleSpec rule = {
      .name = proto.name(),
      .hyperparameters = DecodeHyperparameters(proto.hyperparameters()),
      .keep_master = !proto.has_keep_master() || proto.keep_master()};
  if (proto.has_schedule()) {
    const v1::Schedule& schedule = proto.schedule();
    rule.schedule = {
        .name = schedule.name(),
        .arguments = DecodeHyperparameters(schedule.arguments()),
        .steps = {schedule.steps().begin(), schedule.steps().end()}};
  }
  rule.expression = proto.expression();
  return rule;
}

void ToProto(const RuleSpec& rule, v1::Rule* proto) {
  proto->set_name(rule.name);
  EncodeHyperparameters(rule.hyperparameters, proto->mutable_hyperparameters());
  proto->set_keep_master(rule.keep_master);
  proto->set_expression(rule.expression);
  if (rule.schedule == ScheduleSpec()) return;
  v1::Schedule* const schedule = proto->mutable_schedule();
  schedule->set_name(rule.schedule.name);
  EncodeHyperparameters(rule.schedule.arguments, schedule->mutable_arguments());
  schedule->mutable_steps()->Add(rule.schedule.steps.begin(),
                                 rule.schedule.steps.end());
}

absl::StatusOr<SetRuleRequest> FromProto(const v1::SetRuleRequest& proto) {
  if (!proto.has_rule()) return absl::InvalidArgumentError("rule: missing");
  return SetRuleRequest{.name_space = proto.namespace_(),
                        .key_pattern = proto.key_pattern(),
                        .rule = FromProto(proto.rule()),
                        .call_id = DecodeCallId(proto),
                        .namespace_uid = proto.namespace_uid()};
}

void ToProto(const SetRuleRequest& request, v1::SetRuleRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_key_pattern(request.key_pattern);
  ToProto(request.rule, proto->mutable_rule());
  EncodeCallId(request.call_id, proto);
  proto->set_namespace_uid(request.namespace_uid);
}

absl::StatusOr<UnsetRuleRequest> FromProto(const v1::UnsetRuleRequest& proto) {
  return UnsetRuleRequest{.name_space = proto.namespace_(),
                          .key_pattern = proto.key_pattern(),
                          .call_id = DecodeCallId(proto),
                          .namespace_uid = proto.namespace_uid()};
}

void ToProto(const UnsetRuleRequest& request, v1::UnsetRuleRequest* proto) {
  proto->set_namespace_(request.name_space);
  EncodeCallId(request.call_id, proto);
  proto->set_namespace_uid(request.namespace_uid);
  proto->set_key_pattern(request.key_pattern);
}

absl::StatusOr<SetMultipliersRequest> FromProto(
    const v1::SetMultipliersRequest& proto) {
  if (!proto.has_multipliers()) {
    return absl::InvalidArgumentError("multipliers: missing");
  }
  return SetMultipliersRequest{.name_space = proto.namespace_(),
                               .namespace_uid = proto.namespace_uid(),
                               .key_pattern = proto.key_pattern(),
                               .multipliers = FromProto(proto.multipliers()),
                               .call_id = DecodeCallId(proto)};
}

void ToProto(const SetMultipliersRequest& request,
             v1::SetMultipliersRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  proto->set_key_pattern(request.key_pattern);
  ToProto(request.multipliers, proto->mutable_multipliers());
  EncodeCallId(request.call_id, proto);
}

absl::StatusOr<UnsetMultipliersRequest> FromProto(
    const v1::UnsetMultipliersRequest& proto) {
  return UnsetMultipliersRequest{.name_space = proto.namespace_(),
                                 .namespace_uid = proto.namespace_uid(),
                                 .key_pattern = proto.key_pattern(),
                                 .call_id = DecodeCallId(proto)};
}

void ToProto(const UnsetMultipliersRequest& request,
             v1::UnsetMultipliersRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_namespace_uid(request.namespace_uid);
  proto->set_key_pattern(request.key_pattern);
  EncodeCallId(request.call_id, proto);
}

absl::StatusOr<SetHyperparametersRequest> FromProto(
    const v1::SetHyperparametersRequest& proto) {
  return SetHyperparametersRequest{
      .name_space = proto.namespace_(),
      .key_pattern = proto.key_pattern(),
      .hyperparameters = DecodeHyperparameters(proto.hyperparameters()),
      .call_id = DecodeCallId(proto),
      .namespace_uid = proto.namespace_uid()};
}

void ToProto(const SetHyperparametersRequest& request,
             v1::SetHyperparametersRequest* proto) {
  proto->set_namespace_(request.name_space);
  proto->set_key_pattern(request.key_pattern);
  EncodeHyperparameters(request.hyperparameters,
                        proto->mutable_hyperparameters());
  EncodeCallId(request.call_id, proto);
  proto->set_namespace_uid(request.namespace_uid);
}

absl::StatusOr<RuleSpec> FromProto(
    const v1::SetHyperparametersResponse& proto) {
  return FromProto(proto.rule());
}

void ToProto(const RuleSpec& rule, v1::SetHyperparametersResponse* proto) {
  ToProto(rule, proto->mutable_rule());
}

}  // namespace tensorkv

#include "contract/proto_codec.h"

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

}  // namespace tensorkv

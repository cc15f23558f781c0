#include <utility>
#include <vector>

#include "contract/proto_codec.h"

namespace tensorkv {

absl::StatusOr<ServerStatus> FromProto(
    const v1::DescribeServerResponse& proto) {
  std::vector<DeviceBudget> device_budgets;
  for (const v1::DeviceBudget& budget : proto.device_budgets()) {
    device_budgets.push_back(
        {budget.device(), budget.budget_bytes(), budget.used_bytes()});
  }
  return ServerStatus{
      .version = proto.version(),
      .incarnation = proto.incarnation(),
      .start_unix_seconds = proto.start_time().seconds(),
      .devices = {proto.devices().begin(), proto.devices().end()},
      .budget_bytes = proto.budget_bytes(),
      .used_bytes = proto.used_bytes(),
      .max_message_bytes = proto.max_message_bytes(),
      .max_entries = proto.max_entries(),
      .device_budgets = std::move(device_budgets)};
}

void ToProto(const ServerStatus& status, v1::DescribeServerResponse* proto) {
  proto->set_version(status.version);
  proto->set_incarnation(status.incarnation);
  proto->mutable_start_time()->set_seconds(status.start_unix_seconds);
  proto->mutable_devices()->Add(status.devices.begin(), status.devices.end());
  proto->set_budget_bytes(status.budget_bytes);
  proto->set_used_bytes(status.used_bytes);
  proto->set_max_message_bytes(status.max_message_bytes);
  proto->set_max_entries(status.max_entries);
  for (const DeviceBudget& budget : status.device_budgets) {
    v1::DeviceBudget* const budget_proto = proto->add_device_budgets();
    budget_proto->set_device(budget.device);
    budget_proto->set_budget_bytes(budget.budget_bytes);
    budget_proto->set_used_bytes(budget.used_bytes);
  }
}

}  // namespace tensorkv

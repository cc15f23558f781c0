// Runs a rule on a f64 key, for other programs to compare: reads, line by line,
// the rule, the value, and a gradient per update; prints the value after each.

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace tensorkv {
namespace {

std::vector<double> ReadNumbers(const std::string& line) {
  std::istringstream in(line);
  std::vector<double> numbers;
  for (double number; in >> number;) numbers.push_back(number);
  return numbers;
}

absl::Status Run(std::istream& in, std::ostream& out) {
  std::string line;
  std::getline(in, line);
  const absl::StatusOr<RuleSpec> spec = ParseRuleSpec(line);
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<UpdateRule> rule = UpdateRule::Create(*spec);
  if (!rule.ok()) return rule.status();
  std::getline(in, line);
  std::vector<double> value = ReadNumbers(line);
  const auto size = static_cast<int64_t>(value.size());
  std::vector<std::vector<double>> states(rule->num_states(),
                                          std::vector<double>(size));
  std::vector<MutableTensorView> state_views;
  for (std::vector<double>& state : states) {
    state_views.push_back({DType::kF64, size, state.data()});
  }
  CpuBackend backend(1);
  out.precision(17);
  for (uint64_t t = 1; std::getline(in, line); ++t) {
    std::vector<double> gradient = ReadNumbers(line);
    const std::vector<TensorView> contributions = {
        {DType::kF64, static_cast<int64_t>(gradient.size()), gradient.data()}};
    const absl::Status status =
        backend.Apply({{.rule = &*rule,
                        .update_count = t,
                        .stored = {DType::kF64, size, value.data()},
                        .contributions = contributions,
                        .states = state_views,
                        .value = {DType::kF64, size, value.data()}}});
    if (!status.ok()) return status;
    for (const double element : value) out << element << " ";
    out << "\n";
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensorkv

int main() {
  const absl::Status status = tensorkv::Run(std::cin, std::cout);
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}

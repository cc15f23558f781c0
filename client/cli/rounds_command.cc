#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/status_macros.h"
#include "client/cli/commands.h"

namespace tensorkv {
namespace {

struct RoundsFlags {
  std::string name;
  uint64_t num_steps = 10;
  uint64_t first = 0;
  uint64_t last = 0;
};

// A page has no more.
constexpr uint64_t kMaxSteps = 128;

// Returns the newest of the steps.
absl::StatusOr<std::vector<v1::StepRecord>> Records(const RoundsFlags& flags,
                                                    Invocation& invocation) {
  DescribeStepsRequest request;
  request.set_namespace_(flags.name.empty() ? invocation.flags.name_space
                                            : flags.name);
  request.set_first_step(flags.first);
  request.set_last_step(flags.last);
  std::vector<v1::StepRecord> records;
  do {
    request.set_page_size(static_cast<uint32_t>(
        std::min(kMaxSteps, flags.num_steps - records.size())));
    // It is of whatever namespace the request names.
    ASSIGN_OR_RETURN(
        DescribeStepsReply page,
        static_cast<ServerVerbs&>(invocation.client).Call(request));
    std::move(page.mutable_steps()->begin(), page.mutable_steps()->end(),
              std::back_inserter(records));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && records.size() < flags.num_steps);
  return records;
}

absl::Status RunRounds(const RoundsFlags& flags, Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::vector<v1::StepRecord> records,
                   Records(flags, invocation));
  invocation.PrintTable(
      records, {"step", "last_end_time", "rounds_closed", "rounds_failed",
                "rounds_unlisted", "contributors", "failures", "workers"});
  return absl::OkStatus();
}

}  // namespace

void AddRoundsCommand(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<RoundsFlags>();
  CLI::App* const command = app.add_subcommand(
      "rounds",
      "Tell what the newest steps of a sync namespace were: who contributed, "
      "what was late, what failed; --namespace's if none is named");
  command->add_option("name", flags->name, "The namespace");
  command->add_option("--steps", flags->num_steps, "So many steps [10]")
      ->check(CLI::PositiveNumber);
  command->add_option("--first", flags->first, "None below this")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--last", flags->last, "None above this")
      ->check(CLI::NonNegativeNumber);
  OnRun(*command, action, flags, RunRounds);
}

}  // namespace tensorkv

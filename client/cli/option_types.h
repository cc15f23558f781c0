// Options whose values are more than text and numbers.

#ifndef TENSORKV_CLIENT_CLI_OPTION_TYPES_H_
#define TENSORKV_CLIENT_CLI_OPTION_TYPES_H_

#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "contract/choice_names.h"

namespace tensorkv {

// Adds an option whose values are `names` of choices. `choice` has the default,
// and outlives the command.
template <typename Choice>
CLI::Option* AddChoice(
    CLI::App& command, const std::string& option, Choice& choice,
    const std::string& help,
    const std::vector<std::string>& names = ChoiceNames<Choice>()) {
  return command
      .add_option_function<std::string>(
          option,
          [&choice](const std::string& name) {
            choice = *ChoiceOf<Choice>(name);
          },
          help)
      ->check(CLI::IsMember(names));
}

// Adds an option whose values `parse` reads, which returns a StatusOr; its
// error is a wrong command line. `value` has the default, and outlives the
// command.
template <typename Value, typename Parse>
CLI::Option* AddParsed(CLI::App& command, const std::string& option,
                       Value& value, Parse parse, const std::string& help) {
  // An option "-f,--fill" goes by its long name.
  const std::string name = option.substr(option.rfind(',') + 1);
  return command.add_option_function<std::string>(
      option,
      [name, &value, parse](const std::string& text) {
        auto parsed = parse(text);
        if (!parsed.ok()) {
          throw CLI::ValidationError(name,
                                     std::string(parsed.status().message()));
        }
        value = *std::move(parsed);
      },
      help);
}

// Reads "500ms" or "1.5s". Errors: InvalidArgument also for what is not above
// zero.
inline absl::StatusOr<absl::Duration> ParseDuration(const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration) && duration > absl::ZeroDuration()) {
    return duration;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected more than zero, as 10s or 500ms, got ", text));
}

// Returns the duration that the text names, where "0" and "0s" are 0 as well.
inline absl::StatusOr<absl::Duration> ParseDurationOrZero(
    const std::string& text) {
  if (text == "0" || text == "0s") return absl::ZeroDuration();
  return ParseDuration(text);
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_OPTION_TYPES_H_

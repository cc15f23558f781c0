// Options whose values are the names of choices.

#ifndef TENSORKV_CLIENT_CLI_CHOICE_OPTION_H_
#define TENSORKV_CLIENT_CLI_CHOICE_OPTION_H_

#include <string>

#include "CLI/CLI.hpp"
#include "contract/choice_names.h"

namespace tensorkv {

// `choice` has the default, and outlives the command.
template <typename Choice>
void AddChoice(CLI::App& command, const std::string& option, Choice& choice,
               const std::string& help) {
  command
      .add_option_function<std::string>(
          option,
          [&choice](const std::string& name) {
            choice = *ChoiceOf<Choice>(name);
          },
          help)
      ->check(CLI::IsMember(ChoiceNames<Choice>()));
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_CHOICE_OPTION_H_

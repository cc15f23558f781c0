// Writes what the steps of a namespace were as text for people.

#ifndef TENSORKV_CLIENT_CLI_STEP_TEXT_H_
#define TENSORKV_CLIENT_CLI_STEP_TEXT_H_

#include <string>

#include "tensorkv/v1/step.pb.h"

namespace tensorkv {

// Returns "10 keys: 0-2 4 skipped 5 weighs 0.5 3 of step 6 without 3": ranks
// that contributed in the same way are one range.
std::string TextOf(const v1::StepContributors& list);

// Returns "3 rounds of a b: rank 5 was lost".
std::string TextOf(const v1::StepFailure& failure);

// Returns "2 (c) late_carried=1": the counts that are not 0.
std::string TextOf(const v1::StepWorker& worker);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_STEP_TEXT_H_

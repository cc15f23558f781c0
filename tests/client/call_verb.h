// Calls a verb by its name, for tests of what all verbs have in common.

#ifndef TENSORKV_TESTS_CLIENT_CALL_VERB_H_
#define TENSORKV_TESTS_CLIENT_CALL_VERB_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/connection.h"

namespace tensorkv::testing {

// The names of all verbs: "Init", "Push", ...
std::vector<std::string> AllVerbs();

// Calls `verb`, one of AllVerbs, with an empty request.
absl::Status CallVerb(const std::string& verb, Connection& connection,
                      const CallOptions& options = {});

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_CALL_VERB_H_

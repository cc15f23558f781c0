#include "tests/client/call_verb.h"

namespace tensorkv::testing {

std::vector<std::string> AllVerbs() {
  std::vector<std::string> verbs;
  for (const Method method : kUnaryMethods) {
    verbs.emplace_back(NameOf(method));
  }
  return verbs;
}

absl::Status CallVerb(const std::string& verb, Connection& connection,
                      const CallOptions& options) {
#define TENSORKV_CALL(name, ...) \
  if (verb == #name) return connection.Call(name##Request(), options).status();
  TENSORKV_UNARY_METHODS(TENSORKV_CALL)
#undef TENSORKV_CALL
  return absl::InternalError("no such verb: " + verb);
}

}  // namespace tensorkv::testing

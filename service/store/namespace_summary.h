// The numbers of namespaces, for whoever counts them.

#ifndef TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_
#define TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "contract/requests.h"

namespace tensorkv {

// A round that waits for contributions.
struct OpenRound {
  std::string key;
  Step step = 0;
  // The ranks that it waits for; empty while its sum is under way.
  std::vector<uint32_t> missing;
};

// What can be told of the namespaces of a store at little cost. Thread-safe.
class NamespaceSummaries {
 public:
  virtual ~NamespaceSummaries() = default;

  // Returns all namespaces in the order of their names, without rules and
  // workers, and with the budget alone of their configurations: takes a few
  // microseconds for each, however many rules and workers it has.
  virtual std::vector<NamespaceStatus> Summaries() const = 0;
  // Returns open rounds of the namespace, in order of their steps and keys: all
  // of them, or some if there are thousands. Errors: NotFound.
  virtual absl::StatusOr<std::vector<OpenRound>> OpenRounds(
      absl::string_view name_space) const = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_

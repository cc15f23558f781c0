// The numbers of namespaces, for whoever counts them.

#ifndef TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_
#define TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_

#include <vector>

#include "contract/requests.h"

namespace tensorkv {

// The namespaces of a store. Thread-safe.
class NamespaceSummaries {
 public:
  virtual ~NamespaceSummaries() = default;

  // All namespaces in the order of their names, without rules and workers, and
  // with the budget alone of their configurations: takes a few microseconds for
  // each, however many rules and workers it has.
  virtual std::vector<NamespaceStatus> Summaries() const = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_

// The numbers of namespaces, for whoever counts them.

#ifndef TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_
#define TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_

#include <cstdint>
#include <vector>

#include "tensor/requests.h"

namespace tensorkv {

struct NamespaceSummary {
  // Without configuration, rules and workers.
  NamespaceStatus numbers;
  uint64_t budget_bytes = 0;
  uint64_t num_workers_live = 0;
};

// The namespaces of a store. Thread-safe.
class NamespaceSummaries {
 public:
  virtual ~NamespaceSummaries() = default;

  // Of all namespaces, by name. Takes a few microseconds for each, however many
  // rules and workers it has.
  virtual std::vector<NamespaceSummary> Summaries() const = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_NAMESPACE_SUMMARY_H_

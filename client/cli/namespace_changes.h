// Tells what has happened in a namespace between two looks at it.

#ifndef TENSORKV_CLIENT_CLI_NAMESPACE_CHANGES_H_
#define TENSORKV_CLIENT_CLI_NAMESPACE_CHANGES_H_

#include <string>
#include <vector>

#include "contract/requests.h"

namespace tensorkv {

struct NamespaceChange {
  // "worker joined".
  std::string what;
  // "rank 0 (\"w0\")".
  std::string detail;

  friend bool operator==(const NamespaceChange&,
                         const NamespaceChange&) = default;
};

// Workers, keys, rules, and counts of what goes wrong. Steps and updates are
// not among them. What came and went between the looks is not seen.
std::vector<NamespaceChange> ChangesBetween(const NamespaceStatus& before,
                                            const NamespaceStatus& after);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_NAMESPACE_CHANGES_H_

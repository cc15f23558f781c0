// One look at a server, and its rates since the look before.

#ifndef TENSORKV_CLIENT_CLI_SERVER_LOOK_H_
#define TENSORKV_CLIENT_CLI_SERVER_LOOK_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/metadata_text.h"
#include "contract/requests.h"

namespace tensorkv {

struct ServerLook {
  absl::Time time;
  ServerStatus server;
  std::vector<NamespaceStatus> namespaces;
};

struct NamespaceRates {
  double updates_per_second = 0;
  double rounds_per_second = 0;
};

// Returns the rates of a namespace of `look`; nothing if it was not there
// `before`, which may be null, or the server has been started since.
std::optional<NamespaceRates> RatesOf(const NamespaceStatus& status,
                                      const ServerLook& look,
                                      const ServerLook* before);

// Returns a line about the server, and a table with a line per namespace:
// namespace mode live workers keys size updates/s rounds/s open waiting lag;
// wide also failed late values state contributions.
std::string TopText(const ServerLook& look, const ServerLook* before,
                    Columns columns);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_SERVER_LOOK_H_

// A placement of two servers, and keys of each.

#ifndef TENSORKV_TESTS_SERVICE_CLUSTER_TWO_SERVERS_H_
#define TENSORKV_TESTS_SERVICE_CLUSTER_TWO_SERVERS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "contract/placement.h"

namespace tensorkv::testing {

// Of servers "a" and "b", at "a:1" and "b:1".
inline ClusterPlacement TwoServers(uint64_t version) {
  return {.cluster = "c",
          .version = version,
          .servers = {{.name = "a", .address = "a:1"},
                      {.name = "b", .address = "b:1"}},
          .owners = {0, 1, 1, 0, 1, 0, 0, 1}};
}

// The first of the keys "k0", "k1", ... in `name_space` that the server owns.
inline std::string KeyOfServer(absl::string_view server,
                               absl::string_view name_space = "") {
  const ClusterPlacement placement = TwoServers(1);
  for (int i = 0;; ++i) {
    std::string key = absl::StrCat("k", i);
    const uint32_t owner = OwnerOf(placement, name_space, key);
    if (placement.servers[owner].name == server) return key;
  }
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_CLUSTER_TWO_SERVERS_H_

// What watches of a namespace have told.

#ifndef TENSORKV_TESTS_SWARM_WATCHED_H_
#define TENSORKV_TESTS_SWARM_WATCHED_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace tensorkv::swarm {

// What the watches have told that there are of a namespace, one at each server.
struct Watched {
  struct AtServer {
    std::string token;
    // By key, or series: the highest that it has told.
    std::map<std::string, uint64_t> floors;
    // The last answer was that there is no more, or an error.
    bool is_done = false;
    absl::Status status;
  };
  // Is a version, or the number of a snapshot.
  struct Told {
    uint32_t server = 0;
    uint64_t revision = 0;
    uint64_t number = 0;
    bool is_deleted = false;
  };

  std::map<uint32_t, AtServer> at;
  // By key, or series: the last.
  std::map<std::string, Told> told;
  // They have told what there was when they began.
  bool is_whole = true;
};

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_WATCHED_H_

// Who has the keys of a call.

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "contract/reason.h"
#include "service/cluster/placement_changes.h"
#include "tests/swarm/world_state.h"

namespace tensorkv::swarm {
namespace {

bool SaysNotHere(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return reason == Reason::kWrongServer || reason == Reason::kKeyMoving ||
         reason == Reason::kKeyNotRestored;
}

}  // namespace

uint32_t WorldState::OwnerOf(const Space& space, std::optional<uint32_t> key) {
  const ClusterPlacement& placement = admin_.Placement();
  const uint32_t owner =
      tensorkv::OwnerOf(placement, space.plan.name, key ? KeyName(*key) : "");
  return ServerOf(servers_, placement.servers[owner].name);
}

uint32_t WorldState::OwnerFor(uint32_t actor, const Space& space,
                              uint32_t key) {
  const ClusterPlacement& seen = placements_seen_[actor];
  if (!seen.owners.empty()) {
    const uint32_t owner =
        tensorkv::OwnerOf(seen, space.plan.name, KeyName(key));
    const uint32_t at = ServerOf(servers_, seen.servers[owner].name);
    if (!servers_[at]->is_dead) return at;
  }
  placements_seen_[actor] = admin_.Placement();
  return OwnerOf(space, key);
}

bool WorldState::Route(Call& call) {
  if (!is_cluster()) return true;
  if (call.is_bound || call.num_under_way > 0 || plan_.is_mirrored) {
    return !servers_[call.server]->is_dead;
  }
  std::set<uint32_t> owners;
  for (uint32_t key = 0; key < kNumKeys; ++key) {
    if (call.keys >> key & 1) owners.insert(OwnerOf(spaces_[call.space], key));
  }
  // Its keys are no longer together.
  if (owners.size() != 1) return false;
  call.server = *owners.begin();
  return true;
}

// Whether its server owns the keys of the call and knows so, and nothing is
// under way that might change it.
bool WorldState::OwnsForSure(const Call& call) {
  if (!is_cluster() || plan_.is_mirrored || call.keys == 0) return false;
  Server& server = *servers_[call.server];
  const ClusterPlacement& placement = admin_.Placement();
  if (server.is_dead || server.is_moving || server.is_unsettled() ||
      NumLost(placement) > 0 ||
      server.known().last_placement().version != placement.version) {
    return false;
  }
  for (uint32_t key = 0; key < kNumKeys; ++key) {
    if ((call.keys >> key & 1) == 0) continue;
    if (OwnerOf(spaces_[call.space], key) != call.server) return false;
  }
  return true;
}

void WorldState::CheckRefusal(const Attempt& attempt,
                              const absl::Status& status) {
  Call& call = *attempt.call;
  if (!SaysNotHere(status)) {
    call.is_bound = true;
    return;
  }
  placements_seen_[call.actor] = admin_.Placement();
  // What is remembered is told, wherever the keys are.
  if (ReasonOf(status) == Reason::kWrongServer && !call.answer.empty() &&
      call.is_compared && HasHeadroom(plan_) && !attempt.is_lost &&
      IsRemembered(call) && call.generation == spaces_[call.space].generation) {
    Find(absl::StrCat("a repeat is sent away: ", call.what, ": ", call.answer,
                      ", and then ", status.ToString()));
  }
  if (attempt.owned_since != num_changes_ || attempt.is_lost) return;
  Find(absl::StrCat("refused by the server that has the keys: ", call.what,
                    ": ", status.ToString()));
}

}  // namespace tensorkv::swarm

#include "service/store/keyspace/snapshots/saved_clients.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace tensorkv {
namespace {

// Returns whether a snapshot leaves the call out: contributions to rounds are
// recognised by step and rank, and their answers speak of rounds that may not
// be in the snapshot.
bool IsLeftOut(const CallSnapshot& call, bool has_rounds) {
  const bool has_failed = call.answer != nullptr && !call.answer->ok();
  return has_rounds && call.is_push && !has_failed;
}

// Adds the calls that a client has made since, of which one cannot tell
// whether their effect is in the snapshot. Drops those below its later
// answered_below: others there may have come and gone meanwhile.
void AddLater(const ClientSnapshot& after, bool has_rounds,
              ClientSnapshot& client) {
  std::set<uint64_t> known;
  for (const CallSnapshot& call : client.calls) known.insert(call.sequence);
  for (CallSnapshot call : after.calls) {
    if (known.contains(call.sequence) || (has_rounds && call.is_push)) continue;
    call.answer = nullptr;
    client.calls.push_back(std::move(call));
  }
  client.answered_below = std::max(client.answered_below, after.answered_below);
  std::erase_if(client.calls, [&](const CallSnapshot& call) {
    return call.sequence < client.answered_below;
  });
}

}  // namespace

std::vector<ClientSnapshot> ClientsOfSnapshot(
    std::vector<ClientSnapshot> before,
    const std::vector<ClientSnapshot>& after, bool has_rounds) {
  std::map<std::pair<std::string, std::string>, ClientSnapshot> clients;
  for (ClientSnapshot& client : before) {
    std::erase_if(client.calls, [&](const CallSnapshot& call) {
      return IsLeftOut(call, has_rounds);
    });
    std::pair name(client.caller, client.client_id);
    clients.emplace(std::move(name), std::move(client));
  }
  for (const ClientSnapshot& client : after) {
    ClientSnapshot& merged = clients[{client.caller, client.client_id}];
    merged.caller = client.caller;
    merged.client_id = client.client_id;
    AddLater(client, has_rounds, merged);
  }
  std::vector<ClientSnapshot> all;
  for (auto& [name, client] : clients) all.push_back(std::move(client));
  return all;
}

}  // namespace tensorkv

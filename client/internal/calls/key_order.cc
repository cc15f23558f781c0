#include "client/internal/calls/key_order.h"

#include <algorithm>
#include <utility>

namespace tensorkv {

bool KeyOrder::Add(Ticket ticket, std::vector<KeyHash> keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  Call& call = calls_[ticket];
  call.keys = std::move(keys);
  for (const KeyHash key : call.keys) {
    auto& line = lines_[key];
    if (!line.empty()) ++call.num_waiting_in;
    line.push_back(ticket);
  }
  return call.num_waiting_in == 0;
}

std::vector<KeyOrder::Ticket> KeyOrder::Remove(Ticket ticket) {
  std::vector<Ticket> ready;
  const auto call = calls_.extract(ticket);
  for (const KeyHash key : call.mapped().keys) {
    const auto line = lines_.find(key);
    line->second.erase(line->second.begin());
    if (line->second.empty()) {
      lines_.erase(line);
      continue;
    }
    const Ticket next = line->second.front();
    if (--calls_[next].num_waiting_in == 0) ready.push_back(next);
  }
  return ready;
}

}  // namespace tensorkv

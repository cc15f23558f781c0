#include "service/store/keyspace/revisions.h"

namespace tensorkv {

void Revisions::End(uint64_t revision, uint64_t num_effects) {
  const auto entry =
      std::lower_bound(under_way_.begin() + first_, under_way_.end(), revision,
                       [](const Entry& each, uint64_t revision) {
                         return each.revision < revision;
                       });
  entry->num_effects -= num_effects;
  if (entry->num_effects > 0) return;
  ++num_ended_;
  const auto is_over = [](const Entry& each) { return each.num_effects == 0; };
  if (2 * num_ended_ > under_way_.size()) {
    std::erase_if(under_way_, is_over);
    num_ended_ = first_ = 0;
    return;
  }
  while (is_over(under_way_[first_])) ++first_;
}

}  // namespace tensorkv

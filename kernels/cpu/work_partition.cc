#include "kernels/cpu/work_partition.h"

#include <algorithm>

namespace tensorkv {
namespace {

int64_t RoundUp(int64_t value, int64_t granularity) {
  return (value + granularity - 1) / granularity * granularity;
}

// Returns the cost in elements of a sum. A mean of those in the middle compares
// each contribution with every other, so many of them cost more than that; a
// part then has few elements anyway.
int64_t CostOfElement(const TensorUpdate& update) {
  return update.num_averaged > 0
             ? static_cast<int64_t>(update.contributions.size())
             : 1;
}

}  // namespace

std::vector<BatchPosition> PartitionWork(absl::Span<const TensorUpdate> batch,
                                         int64_t granularity) {
  std::vector<BatchPosition> ends;
  int64_t room = kPartElements;
  for (size_t i = 0; i < batch.size(); ++i) {
    const int64_t num_elements = batch[i].value.num_elements;
    const int64_t cost = CostOfElement(batch[i]);
    int64_t element = 0;
    if (room <= 0) {
      ends.push_back({i, 0});
      room = kPartElements;
    }
    room -= kUpdateOverheadElements;
    while ((num_elements - element) * cost > room) {
      const int64_t end =
          element + RoundUp(std::max<int64_t>(room / cost, 1), granularity);
      if (end >= num_elements) break;
      element = end;
      ends.push_back({i, element});
      room = kPartElements;
    }
    room -= (num_elements - element) * cost;
  }
  ends.push_back({batch.size(), 0});
  return ends;
}

}  // namespace tensorkv

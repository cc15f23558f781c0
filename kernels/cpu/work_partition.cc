#include "kernels/cpu/work_partition.h"

#include <algorithm>

namespace tensorkv {
namespace {

int64_t RoundUp(int64_t value, int64_t granularity) {
  return (value + granularity - 1) / granularity * granularity;
}

}  // namespace

std::vector<BatchPosition> PartitionWork(absl::Span<const TensorUpdate> batch,
                                         int64_t granularity) {
  std::vector<BatchPosition> ends;
  int64_t room = kPartElements;
  for (size_t i = 0; i < batch.size(); ++i) {
    const int64_t num_elements = batch[i].value.num_elements;
    int64_t element = 0;
    if (room <= 0) {
      ends.push_back({i, 0});
      room = kPartElements;
    }
    room -= kUpdateOverheadElements;
    while (num_elements - element > room) {
      element += RoundUp(std::max<int64_t>(room, 1), granularity);
      if (element >= num_elements) break;
      ends.push_back({i, element});
      room = kPartElements;
    }
    room -= std::max<int64_t>(num_elements - element, 0);
  }
  ends.push_back({batch.size(), 0});
  return ends;
}

}  // namespace tensorkv

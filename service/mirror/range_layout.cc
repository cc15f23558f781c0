#include "service/mirror/range_layout.h"

namespace tensorkv {
namespace {

// A call that brings less costs about as much.
constexpr int64_t kMinElements = 4096;

}  // namespace

ElementRange RangeOf(int64_t num_elements, size_t place, uint32_t member,
                     uint32_t num_members) {
  if (num_elements < kMinElements * num_members) {
    const bool is_whole = place % num_members == member;
    return {0, is_whole ? num_elements : 0};
  }
  // Without products that could overflow.
  const int64_t each = num_elements / num_members;
  const int64_t rest = num_elements % num_members;
  const int64_t more_before = member < rest ? member : rest;
  return {each * member + more_before, each + (member < rest ? 1 : 0)};
}

}  // namespace tensorkv

// Random numbers that are the same on every machine.

#ifndef TENSORKV_TESTS_SWARM_RANDOM_H_
#define TENSORKV_TESTS_SWARM_RANDOM_H_

#include <cstdint>

namespace tensorkv::swarm {

// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  // From 0 to `end` - 1.
  uint32_t Below(uint32_t end) { return static_cast<uint32_t>(Next() % end); }
  int Between(int first, int last) {
    return first + static_cast<int>(Below(last - first + 1));
  }
  // Once in `n` times.
  bool OneIn(uint32_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

}  // namespace tensorkv::swarm

#endif  // TENSORKV_TESTS_SWARM_RANDOM_H_

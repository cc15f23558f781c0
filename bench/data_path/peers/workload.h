// What peers are asked to do.

#ifndef TENSORKV_BENCH_DATA_PATH_PEERS_WORKLOAD_H_
#define TENSORKV_BENCH_DATA_PATH_PEERS_WORKLOAD_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv::bench {

inline constexpr int64_t kKiB = 1 << 10;
inline constexpr int64_t kMiB = 1 << 20;
inline constexpr int64_t kGiB = 1 << 30;

enum class Verb { kPush, kPull, kPushPull };

// "push", "pull", "pushpull".
absl::string_view NameOf(Verb verb);

// Calls of one kind. Calls under way at once are over different keys.
struct Workload {
  Verb verb = Verb::kPush;
  int64_t bytes_per_key = 0;  // a multiple of 4
  int64_t num_keys = 1;       // in one call
  int in_flight = 1;

  int64_t bytes_per_lane() const { return bytes_per_key * num_keys; }
  // What one call moves; pushpull both ways.
  int64_t bytes_per_call() const {
    return bytes_per_lane() * (verb == Verb::kPushPull ? 2 : 1);
  }
  bool pushes() const { return verb != Verb::kPull; }
  bool pulls() const { return verb != Verb::kPush; }
};

// "64MiB", "10000x256B".
std::string SizeText(const Workload& workload);

// The largest unit that divides the size: "256B", "64MiB", "1GiB".
std::string ByteText(int64_t bytes);

// The name of one of a workload's keys. Each call under way has a lane, from
// 0, and keys of its own.
std::string KeyText(int lane, int64_t index);

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_PEERS_WORKLOAD_H_

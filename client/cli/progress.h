// Shows how far something is that takes long.

#ifndef TENSORKV_CLIENT_CLI_PROGRESS_H_
#define TENSORKV_CLIENT_CLI_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tensorkv {

// "[#####               ] 25% of 4.0 GiB, 512.0 MiB/s, 6s left".
std::string ProgressText(uint64_t bytes, uint64_t total_bytes,
                         absl::Duration elapsed);

// A line on a terminal that is written over itself. Used by one thread.
class Progress {
 public:
  // `out` may be null: then nobody looks. It outlives this.
  Progress(std::ostream* out, uint64_t total_bytes)
      : out_(out), total_bytes_(total_bytes) {}
  // Removes the line.
  ~Progress();

  void Add(uint64_t bytes);

 private:
  std::ostream* const out_;
  const uint64_t total_bytes_;
  const absl::Time start_ = absl::Now();
  uint64_t bytes_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_PROGRESS_H_

// Where and when the figures come from.

#ifndef TENSORKV_BENCH_HARNESS_MACHINE_H_
#define TENSORKV_BENCH_HARNESS_MACHINE_H_

#include <string>
#include <utility>
#include <vector>

namespace tensorkv::bench {

// What is said about a run, in order: the processor, cores, memory, kernel,
// distribution, gRPC, and the time. "unknown" where the system does not tell.
std::vector<std::pair<std::string, std::string>> DescribeMachine();

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_MACHINE_H_

// The calls of throughput.py by the C++ client.
//
//   cpp_throughput SERVER KEYS BYTES_PER_KEY CALLS
//
// prints the seconds of the fastest push, of the fastest pull, and of the
// fastest pull into memory that is there.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/client.h"

namespace tensorkv {
namespace {

absl::StatusOr<double> Fastest(int num_calls,
                               absl::FunctionRef<absl::Status()> call) {
  absl::Duration fastest = absl::InfiniteDuration();
  for (int i = 0; i < num_calls; ++i) {
    const absl::Time begin = absl::Now();
    RETURN_IF_ERROR(call());
    fastest = std::min(fastest, absl::Now() - begin);
  }
  return absl::ToDoubleSeconds(fastest);
}

// Memory for as many tensors like that as it holds.
std::vector<Destination> Cut(absl::Span<char> memory, const Tensor& tensor) {
  std::vector<Destination> destinations;
  const size_t size_bytes = tensor.size_bytes();
  for (size_t i = 0; i < memory.size(); i += size_bytes) {
    destinations.push_back({.dtype = tensor.dtype(),
                            .shape = tensor.shape(),
                            .memory = memory.subspan(i, size_bytes)});
  }
  return destinations;
}

absl::Status Measure(const std::string& server, int num_keys, int64_t bytes,
                     int num_calls) {
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                   Client::Connect({.target = server}));
  ASSIGN_OR_RETURN(const Tensor tensor,
                   Tensor::Filled(DType::kF32, Shape({bytes / 4}), 1));
  std::vector<std::string> keys;
  std::vector<InitEntry> values;
  std::vector<PushEntry> contributions;
  for (int i = 0; i < num_keys; ++i) {
    keys.push_back(absl::StrCat("c++/", num_keys, "/", i));
    values.push_back({keys.back(), tensor});
    contributions.push_back({.key = keys.back(), .tensor = tensor});
  }
  RETURN_IF_ERROR(client->Init(values, OnExisting::kReplace));
  ASSIGN_OR_RETURN(const double push, Fastest(num_calls, [&] {
                     return client->Push(contributions).status();
                   }));
  ASSIGN_OR_RETURN(const double pull, Fastest(num_calls, [&] {
                     return client->Pull(keys).status();
                   }));
  std::vector<char> memory(num_keys * tensor.size_bytes());
  const std::vector<Destination> destinations =
      Cut(absl::MakeSpan(memory), tensor);
  Client reader = client->Into(destinations);
  ASSIGN_OR_RETURN(const double pull_into, Fastest(num_calls, [&] {
                     return reader.Pull(keys).status();
                   }));
  std::printf("%.9f %.9f %.9f\n", push, pull, pull_into);
  return client->Delete(keys).status();
}

}  // namespace
}  // namespace tensorkv

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const absl::Status status = tensorkv::Measure(
      argv[1], std::atoi(argv[2]), std::atoll(argv[3]), std::atoi(argv[4]));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

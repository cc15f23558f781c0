// Adds 1 to a key of its own, again and again, until it is killed.
//
//   fault_pusher TARGET KEY
//
// Creates the key, and writes a byte to stdout for each push that was
// acknowledged.

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>

#include "client/client.h"
#include "tensor/tensor.h"

namespace tensorkv {
namespace {

int Run(const std::string& target, const std::string& key) {
  const auto client = Client::Connect({.target = target, .name_space = "sums"});
  const Tensor one = *Tensor::Filled(DType::kF64, {64}, 1);
  absl::Status status = client.status();
  if (status.ok()) {
    status = (*client)->Init(key, *Tensor::Filled(DType::kF64, {64}, 0));
  }
  while (status.ok()) {
    status = (*client)->Push(key, one).status();
    if (status.ok() && write(STDOUT_FILENO, ".", 1) != 1) std::abort();
  }
  std::cerr << "fault_pusher: " << status << "\n";
  return 1;
}

}  // namespace
}  // namespace tensorkv

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "fault_pusher: expected 2 arguments\n";
    return 2;
  }
  return tensorkv::Run(argv[1], argv[2]);
}

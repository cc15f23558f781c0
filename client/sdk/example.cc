// Stores a tensor, adds to it, and prints what the server has then:
//   main HOST:PORT
#include <tensorkv/client/client.h>
#include <tensorkv/tensor/elements.h>

#include <iostream>

using tensorkv::Client;
using tensorkv::DType;
using tensorkv::Tensor;
using tensorkv::Value;

absl::StatusOr<Value> AddOneToTwo(const std::string& target) {
  auto client = Client::Connect({.target = target});
  if (!client.ok()) return client.status();
  auto two = Tensor::Filled(DType::kF32, {3}, 2);
  auto one = tensorkv::TensorOf<float>({3}, {1, 1, 1});
  if (!two.ok() || !one.ok()) return two.ok() ? one.status() : two.status();
  if (absl::Status status = (*client)->SetRule({.name = "accumulate"});
      !status.ok()) {
    return status;
  }
  if (absl::Status status = (*client)->Init("w", *two); !status.ok()) {
    return status;
  }
  return (*client)->PushPull("w", *one);
}

int main(int argc, char** argv) {
  const auto value = AddOneToTwo(argc > 1 ? argv[1] : "127.0.0.1:7363");
  if (!value.ok()) {
    std::cerr << value.status() << "\n";
    return 1;
  }
  const auto elements = tensorkv::ElementsOf<float>(value->tensor);
  if (!elements.ok()) return 1;
  for (float element : *elements) std::cout << element << " ";
  std::cout << "of version " << value->version << "\n";
}

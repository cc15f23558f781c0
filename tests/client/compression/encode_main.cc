// Shows what the encoders and the decoder do, for a model in another language:
// compression_model_test.py.
//
//   encode_main COMPRESSION NUM_ELEMENTS NUM_PUSHES < elements
//
// The input is NUM_PUSHES times NUM_ELEMENTS f32, pushed to the key "w" one
// after the other. Written for each push: the bytes of the payload as u32, the
// payload, and NUM_ELEMENTS f32, what the CPU backend makes of it.

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "absl/strings/numbers.h"
#include "client/compression/compressor.h"
#include "kernels/cpu/cpu_backend.h"

namespace tensorkv {
namespace {

Tensor Decoded(const PushEntry& entry) {
  CpuBackend backend(/*num_threads=*/1);
  const UpdateRule assign;
  Tensor value = Tensor::Allocate(DType::kF32, entry.shape()).value();
  const TensorView view = {entry.dtype(), value.num_elements(),
                           entry.tensor.data()};
  const Packing* const packing =
      entry.encoding ? &entry.encoding->packing() : nullptr;
  const absl::Status status =
      backend.Apply({{.rule = &assign,
                      .contributions = absl::MakeConstSpan(&view, 1),
                      .packings = absl::MakeConstSpan(&packing, 1),
                      .value = value.mutable_view()}});
  if (!status.ok()) std::cerr << status << "\n";
  return value;
}

int Run(const char* compression_text, int num_elements, int num_pushes) {
  const absl::StatusOr<Compression> compression =
      Compression::Parse(compression_text);
  if (!compression.ok()) {
    std::cerr << compression.status() << "\n";
    return EXIT_FAILURE;
  }
  Compressor compressor({.rules = {{"", *compression}}, .min_bytes = 0});
  std::vector<float> elements(num_elements);
  for (int push = 0; push < num_pushes; ++push) {
    std::cin.read(reinterpret_cast<char*>(elements.data()),
                  static_cast<std::streamsize>(num_elements * sizeof(float)));
    const Tensor tensor =
        Tensor::CopyOf(DType::kF32, {num_elements}, elements.data()).value();
    const std::vector<PushEntry> entries =
        compressor.Compress(0, {{.key = "w", .tensor = tensor}}).value();
    const auto bytes = static_cast<uint32_t>(entries[0].tensor.size_bytes());
    const Tensor decoded = Decoded(entries[0]);
    std::cout.write(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    std::cout.write(entries[0].tensor.data(), bytes);
    std::cout.write(decoded.data(), decoded.size_bytes());
  }
  return std::cin && std::cout ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace tensorkv

int main(int argc, char** argv) {
  int num_elements = 0;
  int num_pushes = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[2], &num_elements) ||
      !absl::SimpleAtoi(argv[3], &num_pushes)) {
    std::cerr << "usage: encode_main COMPRESSION NUM_ELEMENTS NUM_PUSHES\n";
    return EXIT_FAILURE;
  }
  return tensorkv::Run(argv[1], num_elements, num_pushes);
}

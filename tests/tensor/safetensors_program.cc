// Writes and reads .safetensors files for safetensors_oracle.py:
//   safetensors_program write PATH   a tensor of each dtype, and some shapes
//   safetensors_program read PATH    a line per tensor: name dtype shape bytes

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensor/safetensors.h"

namespace tensorkv {
namespace {

// Byte i of each tensor is 7 i + 3, but 0 and 1 in those of bools.
std::string ElementsOf(const SafetensorsEntry& entry) {
  std::string bytes;
  for (uint64_t i = 0; i < entry.size_bytes(); ++i) {
    bytes += static_cast<char>(entry.dtype == DType::kBool ? i % 2 : 7 * i + 3);
  }
  return bytes;
}

int Write(const char* path) {
  std::vector<SafetensorsEntry> entries;
  for (const DType dtype : kAllDTypes) {
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{}, {3, 5}, {0}, {1, 1, 1, 1, 1, 1, 1, 7}}) {
      entries.push_back({absl::StrCat("é\"\\/", NameOf(dtype), shape.size()),
                         dtype, *Shape::Create(shape)});
    }
  }
  std::ofstream file(path, std::ios::binary);
  file << SafetensorsHeader(absl::MakeSpan(entries));
  for (const SafetensorsEntry& entry : entries) file << ElementsOf(entry);
  return file.good() ? 0 : 1;
}

int Read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const auto header_bytes = SafetensorsHeaderBytes(bytes);
  if (!header_bytes.ok()) return 1;
  const auto entries =
      ParseSafetensorsHeader(bytes.substr(0, *header_bytes), bytes.size());
  if (!entries.ok()) {
    std::cerr << entries.status() << "\n";
    return 1;
  }
  for (const SafetensorsEntry& entry : *entries) {
    std::cout << entry.name << " " << NameOf(entry.dtype) << " "
              << absl::StrJoin(entry.shape.dimensions(), ",") << " "
              << absl::BytesToHexString(
                     bytes.substr(entry.offset, entry.size_bytes()))
              << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace tensorkv

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return argv[1] == std::string("write") ? tensorkv::Write(argv[2])
                                         : tensorkv::Read(argv[2]);
}

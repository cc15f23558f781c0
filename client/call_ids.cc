#include "client/call_ids.h"

#include <cstddef>

#include "absl/random/random.h"

namespace tensorkv {
namespace {

constexpr size_t kClientIdBytes = 16;

}  // namespace

std::string RandomClientId() {
  absl::BitGen random;
  std::string bytes;
  while (bytes.size() < kClientIdBytes) {
    bytes.push_back(static_cast<char>(absl::Uniform<uint8_t>(random)));
  }
  return bytes;
}

}  // namespace tensorkv

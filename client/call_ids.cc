#include "client/call_ids.h"

#include <cstddef>

#include "absl/random/random.h"

namespace tensorkv {
namespace {

constexpr size_t kClientIdBytes = 16;

std::string RandomBytes(size_t size) {
  absl::BitGen random;
  std::string bytes;
  while (bytes.size() < size) {
    bytes.push_back(static_cast<char>(absl::Uniform<uint8_t>(random)));
  }
  return bytes;
}

}  // namespace

CallIds::CallIds() : client_id_(RandomBytes(kClientIdBytes)) {}

}  // namespace tensorkv

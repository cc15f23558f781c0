// The hand-written codec beside the generated code, on bytes that a fuzzer
// makes up. The first byte chooses the kind of message, the second the size of
// the chunks it comes in, the rest is the message.
//
//   tools/fuzz 1000000

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "absl/strings/string_view.h"
#include "google/protobuf/stubs/logging.h"
#include "tests/contract/codec_comparison.h"

namespace tensorkv::testing {
namespace {

constexpr size_t kPrefixBytes = 2;

void Check(absl::string_view input) {
  if (input.size() < kPrefixBytes) return;
  const uint8_t kind = input[0];
  const uint8_t chunk_bytes = input[1];
  const CodecComparison comparison =
      CompareCodecs(kAllMessageKinds[kind % std::size(kAllMessageKinds)],
                    input.substr(kPrefixBytes), chunk_bytes + 1);
  if (comparison.disagreement.empty()) return;
  std::fprintf(stderr, "the hand-written codec %s\n",
               comparison.disagreement.c_str());
  std::abort();
}

// The generated code reports every text that is not UTF-8.
const google::protobuf::LogSilencer silencer;

}  // namespace
}  // namespace tensorkv::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorkv::testing::Check(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

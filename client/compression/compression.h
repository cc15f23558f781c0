// Declares how pushed tensors are made smaller, as users choose it.

#ifndef TENSORKV_CLIENT_COMPRESSION_COMPRESSION_H_
#define TENSORKV_CLIENT_COMPRESSION_COMPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensor/dtype.h"

namespace tensorkv {

// One way to encode contributions; what the payloads mean is written in
// proto/tensorkv/v1/tensor.proto. Which elements and codes are chosen:
//
//   kTwoBit     +threshold where the element is at least that, -threshold where
//               it is at most minus that, else 0
//   kOneBit     +1 where the element is above the threshold, else -1
//   kSign       +s or -s by the sign (0 counts as +), s the mean magnitude
//   kTopK       the `fraction` of the elements with the largest magnitudes, at
//               least one; of equal ones the first
//   kRandomK    one element of each block of 1 / fraction, by a seed that
//               changes with the push
//   kDithering  codes of `bits` bits of the magnitude divided by the largest
//               one, or with `l2` by the Euclidean norm; up or down by chance,
//               so that the mean is exact
//   kBlocks     `dtype` (i8, f8e4m3fn, f8e5m2) with a scale for each
//               `block_size` elements: their largest magnitude is the largest
//               number of the dtype
//   kCast       `dtype` (f16, bf16, f8e4m3fn, f8e5m2); what is too large for it
//               becomes its largest number
struct Compression {
  enum class Kind {
    kNone,
    kTwoBit,
    kOneBit,
    kSign,
    kTopK,
    kRandomK,
    kDithering,
    kBlocks,
    kCast,
  };

  // Parses "2bit:0.5", "1bit:0.5", "sign", "topk:0.01", "randomk:0.01",
  // "dithering:8", "i8:128", "f8e4m3fn:128", "f8e5m2:128", "f16", "bf16",
  // "f8e4m3fn", "f8e5m2", "none", each perhaps followed by ",natural" and ",l2"
  // (dithering), ",momentum=0.9", ",feedback" and ",no-feedback". Numbers of
  // the first five and of i8 may be left out. Feedback is on, but for f16 and
  // bf16: what these leave out is small, and keeping it takes two to three
  // times as long, and as much memory as the key, or twice as much once the key
  // was pushed without a step.
  // Errors: InvalidArgument, naming what was expected.
  static absl::StatusOr<Compression> Parse(absl::string_view text);

  Kind kind = Kind::kNone;
  float threshold = 0.5;
  double fraction = 0.01;
  uint32_t bits = 8;
  bool natural = false;
  bool l2 = false;
  DType dtype = DType::kI8;
  uint32_t block_size = 128;

  // Error feedback: what an encoded push leaves out of a key is added to the
  // next push of it. What Parse makes of "f16" and "bf16" has it off.
  bool feedback = true;
  // Nesterov's momentum before encoding: m = momentum m + g, and g + momentum m
  // is what is encoded. For rules without momentum of their own.
  float momentum = 0;
};

// Returns "2bit", "1bit", "sign", "topk", "randomk", "dithering", "blocks",
// "cast" or "none".
absl::string_view NameOf(Compression::Kind kind);

// A compression for the keys that match `key_pattern`, where * stands for any
// characters. The empty pattern matches all keys.
struct CompressionRule {
  bool Matches(absl::string_view key) const;

  std::string key_pattern;
  Compression compression;
};

struct CompressionOptions {
  // The first rule whose pattern matches a key is that key's.
  std::vector<CompressionRule> rules;
  // Smaller tensors are pushed as they are.
  size_t min_bytes = 4096;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_COMPRESSION_COMPRESSION_H_

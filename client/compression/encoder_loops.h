// The innermost loops of compression, compiled once per instruction set.
//
// Plain types and C headers only: see encoder_loops.inc.

#ifndef TENSORKV_CLIENT_COMPRESSION_ENCODER_LOOPS_H_
#define TENSORKV_CLIENT_COMPRESSION_ENCODER_LOOPS_H_

#include <stddef.h>
#include <stdint.h>

namespace tensorkv {

// NarrowFormat is the format that elements are narrowed to.
enum class NarrowFormat { kF16, kBF16, kF8E4M3FN, kF8E5M2, kI8 };
inline constexpr int kNumNarrowFormats = 5;

// Returns the largest finite number of the format; 127 for i8, of which -128 is
// not used.
constexpr float LargestOf(NarrowFormat format) {
  switch (format) {
    case NarrowFormat::kF16:
      return 65504;
    case NarrowFormat::kBF16:
      return 0x1.fep127f;
    case NarrowFormat::kF8E4M3FN:
      return 448;
    case NarrowFormat::kF8E5M2:
      return 57344;
    case NarrowFormat::kI8:
      break;
  }
  return 127;
}

// The members of a Packing of dithering, and the seed of its random numbers.
struct Dithering {
  uint32_t bits;
  bool is_natural;
  float norm;
  uint64_t seed;
};

// Arrays are the same or apart, and aligned to their elements.
struct EncoderLoops {
  const char* instruction_set;

  // out[i] = in[i], by NarrowFormat; null for i8.
  void (*widen[kNumNarrowFormats])(const void* in, float* out, size_t count);
  // out[i] = in[i], rounded.
  void (*round)(const double* in, float* out, size_t count);

  // sum[i] += in[i]. Returns whether all the sums are finite.
  bool (*add)(const float* in, float* sum, size_t count);
  // Returns what add would, and writes nothing.
  bool (*can_add)(const float* in, const float* sum, size_t count);
  // mean[i] = factor * mean[i] + in[i], sum[i] += factor * mean[i] + in[i].
  bool (*add_with_momentum)(const float* in, float factor, float* mean,
                            float* sum, size_t count);
  bool (*can_add_with_momentum)(const float* in, float factor,
                                const float* mean, const float* sum,
                                size_t count);

  // Returns the largest |in[i]|; 0 if there are no elements.
  float (*largest_magnitude)(const float* in, size_t count);

  // These write codes, the first in the highest bits of a byte and zeros behind
  // the last, and leave in `elements` what the codes lack.
  //
  // 3 where an element is at least `threshold`, 2 where it is at most
  // -threshold, else 0.
  void (*write_two_bit)(float threshold, float* elements, size_t count,
                        uint8_t* codes);
  // 1, which stands for `scale`, where an element is above `threshold`, else 0,
  // which stands for -scale.
  void (*write_one_bit)(float threshold, float scale, float* elements,
                        size_t count, uint8_t* codes);
  // Codes of dithering: a sign and a level, up or down by chance.
  void (*write_dithered)(const Dithering& dithering, float* elements,
                         size_t count, uint8_t* codes);
  // The elements over `scale`, at most the largest number of the format.
  void (*narrow[kNumNarrowFormats])(float scale, float* elements, size_t count,
                                    void* out);

  // out[i] = in[i], at most the largest number of the format. Returns whether
  // all the elements are finite; null for i8.
  bool (*cast[kNumNarrowFormats])(const float* in, size_t count, void* out);
  // Casts before[i] + in[i] as `cast` does; after[i] is what out[i] lacks of
  // it. Returns whether all the sums are finite; null for i8.
  bool (*cast_sum[kNumNarrowFormats])(const float* in, const float* before,
                                      size_t count, float* after, void* out);
};

// Returns the loops that the compiler's baseline allows.
const EncoderLoops* PortableEncoderLoops();
// Returns the loops that need AVX2 and F16C, whether or not this CPU has them;
// null where the compiler targets another architecture.
const EncoderLoops* Avx2EncoderLoops();

// Returns the best that this CPU runs. All give the same bits.
const EncoderLoops& SupportedEncoderLoops();

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_COMPRESSION_ENCODER_LOOPS_H_

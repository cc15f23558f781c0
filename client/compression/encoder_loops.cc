#include "client/compression/encoder_loops.h"

namespace tensorkv {
namespace {

const EncoderLoops& BestLoops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) {
    return *Avx2EncoderLoops();
  }
#endif
  return *PortableEncoderLoops();
}

}  // namespace

const EncoderLoops& SupportedEncoderLoops() {
  static const EncoderLoops& kBest = BestLoops();
  return kBest;
}

}  // namespace tensorkv

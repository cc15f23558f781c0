#if defined(__AVX2__)

#include "client/compression/encoder_loops.inc"

namespace tensorkv {
namespace {

constexpr EncoderLoops kLoops = MakeLoops("avx2");

}  // namespace

const EncoderLoops* Avx2EncoderLoops() { return &kLoops; }

}  // namespace tensorkv

#else

#include "client/compression/encoder_loops.h"

namespace tensorkv {

const EncoderLoops* Avx2EncoderLoops() { return nullptr; }

}  // namespace tensorkv

#endif

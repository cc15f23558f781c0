#include "client/compression/encoder_loops.inc"

namespace tensorkv {
namespace {

constexpr EncoderLoops kLoops = MakeLoops("portable");

}  // namespace

const EncoderLoops* PortableEncoderLoops() { return &kLoops; }

}  // namespace tensorkv

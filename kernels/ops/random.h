// Random numbers that follow from where they are used, the same bits on every
// device.

#ifndef TENSORKV_KERNELS_OPS_RANDOM_H_
#define TENSORKV_KERNELS_OPS_RANDOM_H_

#include <stdint.h>

#include <bit>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"

namespace tensorkv::ops {

struct RandomWords {
  uint32_t words[4];
};

// Philox4x32 with 10 rounds: Salmon, Moraes, Dror, Shaw: Parallel random
// numbers: as easy as 1, 2, 3 (SC 2011).
HOST_DEVICE RandomWords Philox(uint64_t key, uint64_t high, uint64_t low) {
  uint32_t c[4] = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                   static_cast<uint32_t>(high),
                   static_cast<uint32_t>(high >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0;
    c[1] = static_cast<uint32_t>(b);
    c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1;
    c[3] = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

// The natural logarithm of a positive normal number, by products alone.
HOST_DEVICE double Logarithm(double x) {
  constexpr double kLogOf2 = 0.693147180559945309417;
  constexpr uint64_t kMantissa = 0x000fffffffffffff;
  constexpr uint64_t kOne = 0x3ff0000000000000;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  // x = m 2^e, with m between sqrt(1/2) and sqrt(2).
  double m = std::bit_cast<double>((bits & kMantissa) | kOne);
  double e = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
  const bool is_large = m > 1.41421356237309504880;
  m = is_large ? m * 0.5 : m;
  e = is_large ? e + 1 : e;
  // log m = 2 artanh s, whose series ends where terms are below 2^-55.
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double sum = 0;
  for (int i = 21; i >= 1; i -= 2) sum = sum * s2 + 1.0 / i;
  return e * kLogOf2 + 2 * s * sum;
}

// cos(2 pi x) for x in [0, 1), by products alone.
HOST_DEVICE double CosineOfTurns(double x) {
  constexpr double kHalfPi = 1.57079632679489661923;
  // The nearest quarter, and what is left: at most an eighth.
  const int quarter = static_cast<int>(x * 4 + 0.5);
  const double a = (x * 4 - quarter) * kHalfPi;
  const double a2 = a * a;
  double cosine = 1;
  double sine = 1;
  for (int i = 16; i >= 2; i -= 2) {
    cosine = 1 - cosine * a2 / (i * (i - 1));
    sine = 1 - sine * a2 / (i * (i + 1));
  }
  const double value = (quarter & 1) != 0 ? sine * a : cosine;
  // cos of quarters 0 to 4 and a remainder: cos, -sin, -cos, sin, cos.
  return (quarter & 3) == 1 || (quarter & 3) == 2 ? -value : value;
}

// A number of the standard normal distribution, by Box and Muller.
HOST_DEVICE double Normal(uint64_t seed, uint64_t update_count,
                          uint64_t index) {
  const RandomWords random = Philox(seed, update_count, index);
  constexpr double kStep = 0x1p-32;
  const double radius = (random.words[0] + 0.5) * kStep;
  const double turns = random.words[1] * kStep;
  return SquareRoot(-2 * Logarithm(radius)) * CosineOfTurns(turns);
}

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_RANDOM_H_

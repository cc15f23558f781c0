// Random numbers that follow from where they are used, the same bits on every
// device.

#ifndef TENSORKV_KERNELS_OPS_RANDOM_H_
#define TENSORKV_KERNELS_OPS_RANDOM_H_

#include <stdint.h>

#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"
#include "kernels/ops/logarithm.h"

namespace tensorkv::ops {

struct RandomWords {
  uint32_t words[4];
};

// Philox4x32: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
// 1, 2, 3 (SC 2011). Of its numbers of rounds, 7 is the smallest that passes
// all of the authors' tests.
inline constexpr int kNoiseRounds = 7;
inline constexpr uint64_t kPhiloxFactor0 = 0xD2511F53;
inline constexpr uint64_t kPhiloxFactor2 = 0xCD9E8D57;

// The key of one round of Philox.
struct PhiloxKey {
  HOST_DEVICE explicit PhiloxKey(uint64_t key)
      : k0(static_cast<uint32_t>(key)), k1(static_cast<uint32_t>(key >> 32)) {}

  // Makes it the key of the next round.
  HOST_DEVICE void Advance() {
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }

  uint32_t k0;
  uint32_t k1;
};

// Returns the output of Philox4x32 with `num_rounds` rounds for the key `seed`
// and the counter whose halves are `low` and `high`.
template <int num_rounds = kNoiseRounds>
HOST_DEVICE RandomWords Philox(uint64_t seed, uint64_t high, uint64_t low) {
  uint32_t c[4] = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                   static_cast<uint32_t>(high),
                   static_cast<uint32_t>(high >> 32)};
  PhiloxKey key(seed);
  for (int round = 0; round < num_rounds; ++round) {
    const uint64_t a = kPhiloxFactor0 * c[0];
    const uint64_t b = kPhiloxFactor2 * c[2];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ key.k0;
    c[1] = static_cast<uint32_t>(b);
    c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ key.k1;
    c[3] = static_cast<uint32_t>(a);
    key.Advance();
  }
  return {{c[0], c[1], c[2], c[3]}};
}

// Elements of a key are taken in groups, whose lanes are 4 elements each,
// kNormalLanes apart from one another: one call of Philox is enough for these.
inline constexpr uint64_t kNormalLanes = 32;
inline constexpr uint64_t kNormalGroup = 4 * kNormalLanes;

template <typename T>
struct NormalPair {
  T first;
  T second;
};

// Return 1 - x^2 / 2! + x^4 / 4! - ... and (x - x^3 / 3! + x^5 / 5! - ...) /
// x, of the square of x, for |x| <= pi / 4.
HOST_DEVICE float CosineSeries(float square) {
  return Polynomial(square, 1.f, -1 / 2.f, 1 / 24.f, -1 / 720.f, 1 / 40320.f);
}
HOST_DEVICE float SineSeries(float square) {
  return Polynomial(square, 1.f, -1 / 6.f, 1 / 120.f, -1 / 5040.f,
                    1 / 362880.f);
}
HOST_DEVICE double CosineSeries(double square) {
  return Polynomial(square, 1., -1 / 2., 1 / 24., -1 / 720., 1 / 40320.,
                    -1 / 3628800., 1 / 479001600., -1 / 87178291200.,
                    1 / 20922789888000.);
}
HOST_DEVICE double SineSeries(double square) {
  return Polynomial(square, 1., -1 / 6., 1 / 120., -1 / 5040., 1 / 362880.,
                    -1 / 39916800., 1 / 6227020800., -1 / 1307674368000.,
                    1 / 355687428096000.);
}

// Returns -2 log(1 + f) over s = f / (2 + f), of the square of s, for 1 + f
// from sqrt(1/2) to sqrt(2): -4 - 4 s^2 / 3 - 4 s^4 / 5 - ...
HOST_DEVICE float LogarithmSeries(float square) {
  return Polynomial(square, -4.f, -4 / 3.f, -4 / 5.f, -4 / 7.f);
}
HOST_DEVICE double LogarithmSeries(double square) {
  return Polynomial(square, -4., -4 / 3., -4 / 5., -4 / 7., -4 / 9., -4 / 11.,
                    -4 / 13., -4 / 15., -4 / 17., -4 / 19.);
}

// Returns sqrt(-2 log(x)) of the number x between 0 and 1 for which the upper
// 31 bits stand, in the middle of its interval. Log would have to tell more
// kinds of numbers apart, and be right in the last bit.
template <typename T>
HOST_DEVICE T NormalRadius(uint32_t bits) {
  constexpr T kMinusTwoLn2 = static_cast<T>(-1.38629436111989061883);
  // Signed numbers, which every instruction set converts.
  const T share = static_cast<T>(static_cast<int32_t>(bits >> 1)) + T(0.5);
  const auto [exponent, f] = SplitNormal(share, T(31));
  const T s = f / (2 + f);
  return SquareRoot(exponent * kMinusTwoLn2 + s * LogarithmSeries(s * s));
}

// Returns two independent numbers of the standard normal distribution, by Box
// and Muller, from 32 random bits each for their radius and their angle. Free
// of branches.
//
// The lower 30 bits of an angle say where it is in a quarter of a turn. The
// others say which quarter that is: whether cosine and sine change places, and
// whether they are negative.
template <typename T>
HOST_DEVICE NormalPair<T> BoxMuller(uint32_t radius_bits, uint32_t angle_bits) {
  using Bits = typename FloatFacts<T>::Bits;
  constexpr T kUnit = static_cast<T>(1.57079632679489661923 * 0x1p-32);
  constexpr int kShift = 8 * sizeof(T) - 32;
  constexpr uint32_t kSign = 0x80000000;
  constexpr uint32_t kTurn = 0x40000000;
  const T radius = FromBits<T>(BitsOf(NormalRadius<T>(radius_bits)) ^
                               static_cast<Bits>(angle_bits & kSign) << kShift);
  // At most an eighth of a turn, in quarters of 2^-32.
  const auto rest = static_cast<int32_t>(angle_bits << 2);
  const T x = static_cast<T>(rest) * kUnit;
  const T cosine = radius * CosineSeries(x * x);
  const T sine = radius * (x * SineSeries(x * x));
  const bool is_turned = (angle_bits & kTurn) != 0;
  return {is_turned ? sine : cosine, is_turned ? cosine : sine};
}

// A number of the standard normal distribution for each element of a key and
// update: loops may draw those of a group at once.
template <typename T>
struct NormalNoise {
  // Returns the number of element `index` of the key: always the same one.
  HOST_DEVICE T operator()(uint64_t index) const {
    const uint64_t call =
        index / kNormalGroup * kNormalLanes + index % kNormalLanes;
    const RandomWords random = Philox(seed, update_count, call);
    const uint64_t place = index % kNormalGroup / kNormalLanes;
    const bool is_late = place >= 2;
    const NormalPair<T> pair =
        BoxMuller<T>(is_late ? random.words[2] : random.words[0],
                     is_late ? random.words[3] : random.words[1]);
    return place % 2 == 0 ? pair.first : pair.second;
  }

  uint64_t seed;
  uint64_t update_count;
};

}  // namespace tensorkv::ops

#endif  // TENSORKV_KERNELS_OPS_RANDOM_H_

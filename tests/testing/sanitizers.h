// How much a test plays where sanitizers make everything slower.

#ifndef TENSORKV_TESTS_TESTING_SANITIZERS_H_
#define TENSORKV_TESTS_TESTING_SANITIZERS_H_

namespace tensorkv::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(_GLIBCXX_TSAN)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// Returns `count`, or a quarter of it in asan and tsan: for tests that draw
// many cases, which find more by number, without a sanitizer, than by its help.
constexpr int FewerIfSanitized(int count) {
  return kIsSanitized ? (count + 3) / 4 : count;
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_SANITIZERS_H_

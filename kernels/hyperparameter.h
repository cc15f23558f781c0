// Named numbers with ranges and defaults, and how a peer's are checked.

#ifndef TENSORKV_KERNELS_HYPERPARAMETER_H_
#define TENSORKV_KERNELS_HYPERPARAMETER_H_

#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensor/rule_spec.h"

namespace tensorkv {

// The values that a hyperparameter may have. No range has infinities or NaN.
struct Range {
  // What messages say after "must be".
  absl::string_view text;
  bool (*contains)(double value);
};

inline constexpr Range kFinite = {"finite",
                                  [](double x) { return std::isfinite(x); }};
inline constexpr Range kNotNegative = {
    "finite and >= 0", [](double x) { return std::isfinite(x) && x >= 0; }};
inline constexpr Range kPositive = {
    "finite and > 0", [](double x) { return std::isfinite(x) && x > 0; }};
inline constexpr Range kUnit = {"in [0, 1)",
                                [](double x) { return x >= 0 && x < 1; }};
inline constexpr Range kFlag = {"0 or 1",
                                [](double x) { return x == 0 || x == 1; }};
inline constexpr Range kCount = {
    "a whole number from 0 to 2^53",
    [](double x) { return x >= 0 && x <= 0x1p53 && std::trunc(x) == x; }};

struct Hyperparameter {
  absl::string_view name;
  double default_value;
  Range range;
};

// A hyperparameter and the variable to which its value is written.
struct HyperparameterTarget {
  const Hyperparameter* hyperparameter;
  double* value;
};

// Writes each hyperparameter's value in `given`, or else its default, to its
// target, and adds the defaults to `given`. `subject` begins error messages.
// Errors: InvalidArgument for an unknown name (the message lists the known
// ones), or a value out of range; some targets may have been written then.
absl::Status ReadHyperparameters(absl::string_view subject,
                                 absl::Span<const HyperparameterTarget> targets,
                                 Hyperparameters& given);

// Returns the first 64 bytes of any text of a peer, a name or not, as Quoted of
// base/shown_text.h shows them: printable, in quotes, "..." if there are more.
std::string QuotedName(absl::string_view name);

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_HYPERPARAMETER_H_

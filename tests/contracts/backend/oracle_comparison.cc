#include "tests/contracts/backend/oracle_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/contracts/backend/exact_elements.h"
#include "tests/contracts/backend/update_oracle.h"

namespace tensorkv::testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

// Rounding errors of the accumulate type that an update may add up.
constexpr double kRoundings = 8;

double UnitRoundoff(DType dtype) {
  return dtype == DType::kF64 ? std::ldexp(1, -53) : std::ldexp(1, -24);
}

// Whether `actual`, an element of `dtype`, is what `expected` rounds to, but
// for `tolerance`.
bool IsNear(double actual, long double expected, long double tolerance,
            DType dtype, DType accumulate) {
  const double value = static_cast<double>(expected);
  if (dtype != accumulate) tolerance += HalfStep(dtype, value);
  return std::abs(actual - value) <= tolerance;
}

// The contract fixes the sum to the last bit: one order, one type.
double SumAt(const UpdateTensors& tensors, DType accumulate, int64_t index) {
  double sum = RoundTo(accumulate, FloatAt(tensors.contributions[0], index));
  for (size_t i = 1; i < tensors.contributions.size(); ++i) {
    const double next =
        RoundTo(accumulate, FloatAt(tensors.contributions[i], index));
    // The double sum of two floats, rounded again, is their float sum.
    sum = RoundTo(accumulate, sum + next);
  }
  return sum;
}

// Where a state has what belongs to the element: one per row has one element,
// for all of the key.
int64_t PlaceIn(const Tensor& state, int64_t index) {
  return state.num_elements() == 1 ? 0 : index;
}

OracleElement InputAt(const UpdateCase& c, const UpdateTensors& before,
                      int64_t index) {
  const bool has_master = before.master.num_elements() > 0;
  OracleElement input = {
      .w = FloatAt(has_master ? before.master : before.stored, index),
      .g = SumAt(before, AccumulateType(c.dtype), index)};
  for (const Tensor& state : before.states) {
    input.states.push_back(FloatAt(state, PlaceIn(state, index)));
  }
  return input;
}

// What the case's rule makes of each element. One that needs no sums need not
// look at them all.
OracleRule RuleOf(const UpdateCase& c, const UpdateTensors& before) {
  std::vector<OracleElement> elements;
  if (c.rule->add_sums != nullptr) {
    for (int64_t i = 0; i < c.num_elements; ++i) {
      elements.push_back(InputAt(c, before, i));
    }
  }
  return c.rule->WithSums(elements, c.update_count);
}

AssertionResult Differs(absl::string_view what, int64_t index, double expected,
                        double actual) {
  return AssertionFailure()
         << what << "[" << index << "]: expected " << absl::StrCat(expected)
         << ", got " << absl::StrCat(actual);
}

AssertionResult StatesAgreeAt(const OracleElement& expected,
                              const OracleTolerance& tolerance,
                              const UpdateTensors& after, DType accumulate,
                              int64_t index) {
  for (size_t i = 0; i < expected.states.size(); ++i) {
    const Tensor& states = after.states[i];
    const double state = FloatAt(states, PlaceIn(states, index));
    if (!IsNear(state, expected.states[i], tolerance.states[i], accumulate,
                accumulate)) {
      return Differs(absl::StrCat("state ", i), index, expected.states[i],
                     state);
    }
  }
  return AssertionSuccess();
}

AssertionResult IsAt(int64_t index, double expected, double actual) {
  if (expected == actual) return AssertionSuccess();
  return Differs("value", index, expected, actual);
}

AssertionResult FloatsAgreeAt(const UpdateCase& c, const OracleRule& rule,
                              const UpdateTensors& before,
                              const UpdateTensors& after, int64_t index) {
  const DType accumulate = AccumulateType(c.dtype);
  const OracleElement input = InputAt(c, before, index);
  const OracleElement expected = rule.Update(input, c.update_count);
  const OracleTolerance tolerance = rule.ToleranceOf(
      input, c.update_count, kRoundings * UnitRoundoff(accumulate));
  const AssertionResult states =
      StatesAgreeAt(expected, tolerance, after, accumulate, index);
  if (!states) return states;
  const double value = FloatAt(after.value, index);
  if (c.rule->spec.name == "assign") {
    const double sum = static_cast<double>(input.g);
    return IsAt(index, RoundTo(c.dtype, sum), value);
  }
  const bool has_master = after.master.num_elements() > 0;
  const DType dtype = has_master ? accumulate : c.dtype;
  const double unrounded = has_master ? FloatAt(after.master, index) : value;
  if (!IsNear(unrounded, expected.w, tolerance.w, dtype, accumulate)) {
    return Differs(has_master ? "master" : "value", index, expected.w,
                   unrounded);
  }
  return IsAt(index, RoundTo(c.dtype, unrounded), value);
}

// Exact, in more bits than any integer dtype; SetInteger keeps the lowest.
AssertionResult IntegersAgreeAt(const UpdateCase& c,
                                const UpdateTensors& before,
                                const UpdateTensors& after, int64_t index) {
  uint64_t sum = 0;
  for (const Tensor& contribution : before.contributions) {
    const uint64_t next = IntegerAt(contribution, index);
    sum = c.dtype == DType::kBool ? sum | next : sum + next;
  }
  uint64_t result = sum;
  if (c.rule->spec.name == "accumulate") {
    const auto scale =
        static_cast<int64_t>(c.rule->spec.hyperparameters.at("scale"));
    const uint64_t stored = IntegerAt(before.stored, index);
    result = c.dtype == DType::kBool ? stored | sum : stored + scale * sum;
  }
  Tensor expected = *Tensor::Allocate(c.dtype, {1});
  SetInteger(expected, 0, result);
  return IsAt(index, IntegerAt(expected, 0), IntegerAt(after.value, index));
}

// Whether a tensor repeats its first run of elements, bit by bit.
AssertionResult RepeatsItsRun(const char* what, const Tensor& tensor) {
  const size_t run_bytes = kRunLength * SizeOf(tensor.dtype());
  const size_t size_bytes = tensor.size_bytes();
  if (size_bytes <= run_bytes ||
      std::memcmp(tensor.data() + run_bytes, tensor.data(),
                  size_bytes - run_bytes) == 0) {
    return AssertionSuccess();
  }
  return AssertionFailure() << what << ": same input, different bits";
}

AssertionResult ElementsAgree(const UpdateCase& c, const UpdateTensors& before,
                              const UpdateTensors& after) {
  const OracleRule rule = RuleOf(c, before);
  for (int64_t i = 0; i < std::min(kRunLength, c.num_elements); ++i) {
    const AssertionResult result =
        IsFloat(c.dtype) ? FloatsAgreeAt(c, rule, before, after, i)
                         : IntegersAgreeAt(c, before, after, i);
    if (!result) return result;
  }
  for (const Tensor& state : after.states) {
    const AssertionResult result = RepeatsItsRun("state", state);
    if (!result) return result;
  }
  const AssertionResult result = RepeatsItsRun("master", after.master);
  return result ? RepeatsItsRun("value", after.value) : result;
}

}  // namespace

AssertionResult AgreesWithOracle(Backend& backend,
                                 const UpdateCase& update_case) {
  const auto before = MakeTensors(update_case);
  if (!before.ok()) return AssertionFailure() << before.status();
  auto update = DeviceUpdate::Create(backend, update_case);
  if (!update.ok()) return AssertionFailure() << update.status();
  const absl::Status status = backend.Apply({update->view()});
  if (!status.ok()) return AssertionFailure() << status;
  const auto after = update->Results(backend);
  if (!after.ok()) return AssertionFailure() << after.status();
  const AssertionResult result = ElementsAgree(update_case, *before, *after);
  if (result) return result;
  return AssertionFailure()
         << update_case.ToString() << ": " << result.message();
}

}  // namespace tensorkv::testing

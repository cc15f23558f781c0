#include "tests/contracts/backend/update_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tests/contracts/backend/exact_elements.h"

namespace tensorkv::testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

constexpr DType kFloats[] = {DType::kF32,  DType::kF64,    DType::kF16,
                             DType::kBF16, DType::kF8E4M3, DType::kF8E5M2};

// --- Cases ------------------------------------------------------------------

bool Takes(const OracleRule& rule, DType dtype) {
  return IsFloat(dtype) || !rule.is_optimizer;
}

// The dtypes that contributions to a key may have, one set per case.
std::vector<std::vector<DType>> ContributionDTypes(DType dtype) {
  if (!IsFloat(dtype)) return {{dtype}};
  std::vector<std::vector<DType>> choices;
  for (DType contribution : kFloats) choices.push_back({contribution});
  choices.push_back({std::begin(kFloats), std::end(kFloats)});
  return choices;
}

// Sizes and update counts take turns, so that the number of cases stays
// moderate.
void AddCases(const OracleRule& rule, DType dtype,
              std::vector<UpdateCase>* out) {
  constexpr int64_t kSizes[] = {1000, 7, 1, 0};
  constexpr uint64_t kUpdateCounts[] = {1, 2, 10};
  for (const auto& contributions : ContributionDTypes(dtype)) {
    for (int num_contributions : {1, 2, 5}) {
      const size_t number = out->size();
      out->push_back({.rule = &rule,
                      .dtype = dtype,
                      .contribution_dtypes = contributions,
                      .num_contributions = num_contributions,
                      .num_elements = kSizes[number % 4],
                      .update_count = kUpdateCounts[number / 4 % 3],
                      .in_place = number / 2 % 2 == 0});
    }
  }
}

// --- Elements ---------------------------------------------------------------

// Finite and moderate: the sums of a few stay far from overflow in every
// float format; integers take the whole range, so that they wrap.
void SetRandom(Tensor& tensor, int64_t index, double low, double high,
               std::mt19937_64& random) {
  if (IsFloat(tensor.dtype())) {
    std::uniform_real_distribution<double> floats(low, high);
    SetFloat(tensor, index, floats(random));
  } else {
    // Of a bool only the lowest bit: the others would make nearly all true.
    const uint64_t mask = tensor.dtype() == DType::kBool ? 1 : ~uint64_t{0};
    SetInteger(tensor, index, random() & mask);
  }
}

// Large tensors repeat a run of elements, for speed. Its length is a prime, so
// that a part of the tensor taken for another shows.
void Fill(Tensor& tensor, double low, double high, std::mt19937_64& random) {
  constexpr int64_t kRun = 1021;
  for (int64_t i = 0; i < std::min(kRun, tensor.num_elements()); ++i) {
    SetRandom(tensor, i, low, high, random);
  }
  const size_t run_bytes = kRun * SizeOf(tensor.dtype());
  char* const data = tensor.mutable_data();
  const size_t size_bytes = tensor.size_bytes();
  for (size_t at = run_bytes; at < size_bytes; at += run_bytes) {
    std::memcpy(data + at, data, std::min(run_bytes, size_bytes - at));
  }
}

absl::StatusOr<Tensor> Random(DType dtype, int64_t num_elements, double low,
                              double high, std::mt19937_64& random) {
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, {num_elements}));
  Fill(tensor, low, high, random);
  return tensor;
}

// The master holds more digits than the stored value, as after some updates.
// The states suit their meanings: a variance is not negative, and all are zero
// at the first update.
absl::StatusOr<UpdateTensors> MakeTensors(const UpdateCase& update_case,
                                          const UpdateRule& rule) {
  const UpdateCase& c = update_case;
  std::mt19937_64 random(c.num_elements + 7 * c.update_count);
  UpdateTensors tensors;
  ASSIGN_OR_RETURN(tensors.stored,
                   Random(c.dtype, c.num_elements, -2, 2, random));
  for (int i = 0; i < c.num_contributions; ++i) {
    const DType dtype = c.contribution_dtypes[i % c.contribution_dtypes.size()];
    ASSIGN_OR_RETURN(Tensor contribution,
                     Random(dtype, c.num_elements, -1, 1, random));
    tensors.contributions.push_back(std::move(contribution));
  }
  for (int i = 0; i < rule.num_states(); ++i) {
    const double high = c.update_count == 1 ? 0 : 0.5;
    const double low = i == 0 ? -high : high / 100;
    ASSIGN_OR_RETURN(Tensor state, Random(AccumulateType(c.dtype),
                                          c.num_elements, low, high, random));
    tensors.states.push_back(std::move(state));
  }
  if (rule.keeps_master(c.dtype)) {
    ASSIGN_OR_RETURN(tensors.master,
                     Random(DType::kF32, c.num_elements, -2, 2, random));
  }
  tensors.value = tensors.stored;
  return tensors;
}

// A tensor of the device with the same elements and memory of its own.
absl::StatusOr<Tensor> CopyToDevice(Backend& backend, const Tensor& host) {
  ASSIGN_OR_RETURN(const Tensor copy,
                   Tensor::CopyOf(host.dtype(), host.shape(), host.data()));
  return backend.ToDevice(copy);
}

absl::Status CopyAllToDevice(Backend& backend, std::vector<Tensor>& tensors) {
  for (Tensor& tensor : tensors) {
    ASSIGN_OR_RETURN(tensor, CopyToDevice(backend, tensor));
  }
  return absl::OkStatus();
}

// --- Expectations -----------------------------------------------------------

// Rounding errors of the accumulate type that an update may add up.
constexpr double kRoundings = 16;

double UnitRoundoff(DType dtype) {
  return dtype == DType::kF64 ? std::ldexp(1, -53) : std::ldexp(1, -24);
}

// Whether `actual`, an element of `dtype`, is what `expected` rounds to, up to
// rounding in `accumulate`.
bool IsNear(double actual, const Estimate& expected, DType dtype,
            DType accumulate) {
  const double value = static_cast<double>(expected.value);
  double tolerance = kRoundings * UnitRoundoff(accumulate) *
                     static_cast<double>(expected.scale);
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

OracleInput InputAt(const UpdateCase& c, const UpdateTensors& before,
                    int64_t index) {
  const bool has_master = before.master.num_elements() > 0;
  OracleInput input = {
      .w = FloatAt(has_master ? before.master : before.stored, index),
      .g = SumAt(before, AccumulateType(c.dtype), index),
      .update_count = c.update_count};
  if (before.states.size() > 0) input.m = FloatAt(before.states[0], index);
  if (before.states.size() > 1) input.v = FloatAt(before.states[1], index);
  return input;
}

AssertionResult Differs(absl::string_view what, int64_t index, double expected,
                        double actual) {
  return AssertionFailure()
         << what << "[" << index << "]: expected " << absl::StrCat(expected)
         << ", got " << absl::StrCat(actual);
}

AssertionResult FloatsAgreeAt(const UpdateCase& c, const UpdateTensors& before,
                              const UpdateTensors& after, int64_t index) {
  const DType accumulate = AccumulateType(c.dtype);
  const OracleInput input = InputAt(c, before, index);
  const OracleOutput expected = c.rule->Update(input);
  const double value = FloatAt(after.value, index);
  for (size_t i = 0; i < expected.states.size(); ++i) {
    const double state = FloatAt(after.states[i], index);
    if (!IsNear(state, expected.states[i], accumulate, accumulate)) {
      return Differs("state", index, expected.states[i].value, state);
    }
  }
  if (c.rule->spec.name == "assign") {
    const double rounded = RoundTo(c.dtype, static_cast<double>(input.g));
    if (value == rounded) return AssertionSuccess();
    return Differs("value", index, rounded, value);
  }
  if (after.master.num_elements() == 0) {
    if (IsNear(value, expected.w, c.dtype, accumulate)) {
      return AssertionSuccess();
    }
    return Differs("value", index, expected.w.value, value);
  }
  const double master = FloatAt(after.master, index);
  if (!IsNear(master, expected.w, accumulate, accumulate)) {
    return Differs("master", index, expected.w.value, master);
  }
  if (value == RoundTo(c.dtype, master)) return AssertionSuccess();
  return Differs("rounded master", index, RoundTo(c.dtype, master), value);
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
  if (IntegerAt(expected, 0) == IntegerAt(after.value, index)) {
    return AssertionSuccess();
  }
  return Differs("value", index, IntegerAt(expected, 0),
                 IntegerAt(after.value, index));
}

AssertionResult ElementsAgree(const UpdateCase& c, const UpdateTensors& before,
                              const UpdateTensors& after) {
  for (int64_t i = 0; i < c.num_elements; ++i) {
    const AssertionResult result = IsFloat(c.dtype)
                                       ? FloatsAgreeAt(c, before, after, i)
                                       : IntegersAgreeAt(c, before, after, i);
    if (!result) return result;
  }
  return AssertionSuccess();
}

void AppendBytes(const Tensor& tensor, std::string* bytes) {
  bytes->append(tensor.data(), tensor.size_bytes());
}

}  // namespace

std::string UpdateCase::ToString() const {
  const std::string contributions = absl::StrJoin(
      contribution_dtypes, "+", [](std::string* out, DType dtype) {
        absl::StrAppend(out, NameOf(dtype));
      });
  return absl::StrCat(rule->spec.ToString(), " on ", NameOf(dtype), "[",
                      num_elements, "] with ", num_contributions, " x ",
                      contributions, ", t = ", update_count,
                      in_place ? ", in place" : "");
}

std::vector<UpdateCase> SmallCases() {
  std::vector<UpdateCase> cases;
  for (const OracleRule& rule : OracleRules()) {
    for (DType dtype : kAllDTypes) {
      if (Takes(rule, dtype)) AddCases(rule, dtype, &cases);
    }
  }
  return cases;
}

std::vector<UpdateCase> LargeCases() {
  std::vector<UpdateCase> cases;
  for (const OracleRule& rule : OracleRules()) {
    const DType dtype = cases.size() % 2 == 0 ? DType::kF32 : DType::kBF16;
    cases.push_back({.rule = &rule,
                     .dtype = dtype,
                     .contribution_dtypes = {dtype},
                     .num_contributions = 2,
                     .num_elements = 70'000,
                     .update_count = 2});
  }
  return cases;
}

absl::StatusOr<DeviceUpdate> DeviceUpdate::Create(
    Backend& backend, const UpdateCase& update_case) {
  DeviceUpdate update;
  ASSIGN_OR_RETURN(update.rule_, UpdateRule::Create(update_case.rule->spec));
  update.update_count_ = update_case.update_count;
  UpdateTensors& tensors = update.tensors_;
  ASSIGN_OR_RETURN(tensors, MakeTensors(update_case, update.rule_));
  RETURN_IF_ERROR(CopyAllToDevice(backend, tensors.contributions));
  RETURN_IF_ERROR(CopyAllToDevice(backend, tensors.states));
  ASSIGN_OR_RETURN(tensors.stored, CopyToDevice(backend, tensors.stored));
  ASSIGN_OR_RETURN(tensors.master, CopyToDevice(backend, tensors.master));
  tensors.value = tensors.stored;
  if (!update_case.in_place) {
    ASSIGN_OR_RETURN(tensors.value, CopyToDevice(backend, tensors.value));
    RETURN_IF_ERROR(backend.Zero({tensors.value.mutable_view()}));
  }
  for (const Tensor& tensor : tensors.contributions) {
    update.contribution_views_.push_back(tensor.view());
  }
  for (Tensor& tensor : tensors.states) {
    update.state_views_.push_back(tensor.mutable_view());
  }
  return update;
}

TensorUpdate DeviceUpdate::view() {
  return {.rule = &rule_,
          .update_count = update_count_,
          .stored = tensors_.stored.view(),
          .contributions = contribution_views_,
          .states = state_views_,
          .master = tensors_.master.mutable_view(),
          .value = tensors_.value.mutable_view()};
}

absl::StatusOr<UpdateTensors> DeviceUpdate::Results(Backend& backend) const {
  UpdateTensors results;
  ASSIGN_OR_RETURN(results.value, backend.ToHost(tensors_.value));
  ASSIGN_OR_RETURN(results.master, backend.ToHost(tensors_.master));
  for (const Tensor& tensor : tensors_.states) {
    ASSIGN_OR_RETURN(Tensor state, backend.ToHost(tensor));
    results.states.push_back(std::move(state));
  }
  return results;
}

absl::StatusOr<std::string> DeviceUpdate::ResultBytes(Backend& backend) const {
  ASSIGN_OR_RETURN(const UpdateTensors results, Results(backend));
  std::string bytes;
  AppendBytes(results.value, &bytes);
  for (const Tensor& state : results.states) AppendBytes(state, &bytes);
  AppendBytes(results.master, &bytes);
  return bytes;
}

absl::StatusOr<std::vector<std::string>> ResultBytes(
    Backend& backend, const std::vector<UpdateCase>& cases) {
  std::vector<std::string> results;
  for (const UpdateCase& update_case : cases) {
    ASSIGN_OR_RETURN(DeviceUpdate update,
                     DeviceUpdate::Create(backend, update_case));
    RETURN_IF_ERROR(backend.Apply({update.view()}));
    ASSIGN_OR_RETURN(std::string bytes, update.ResultBytes(backend));
    results.push_back(std::move(bytes));
  }
  return results;
}

AssertionResult AgreesWithOracle(Backend& backend,
                                 const UpdateCase& update_case) {
  const absl::StatusOr<UpdateRule> rule =
      UpdateRule::Create(update_case.rule->spec);
  if (!rule.ok()) return AssertionFailure() << rule.status();
  const auto before = MakeTensors(update_case, *rule);
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

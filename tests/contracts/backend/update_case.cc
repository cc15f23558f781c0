#include "tests/contracts/backend/update_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tests/contracts/backend/exact_elements.h"
#include "tests/testing/device_tensors.h"

namespace tensorkv::testing {
namespace {

constexpr DType kFloats[] = {DType::kF32,  DType::kF64,      DType::kF16,
                             DType::kBF16, DType::kF8E4M3FN, DType::kF8E5M2};

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
// moderate, and so do the contributions to optimizers: what reads and sums them
// is not a rule's own.
void AddCases(const OracleRule& rule, DType dtype,
              std::vector<UpdateCase>* out) {
  constexpr int64_t kSizes[] = {1000, 7, 1, 0};
  constexpr uint64_t kUpdateCounts[] = {1, 2, 10};
  const std::vector<std::vector<DType>> choices = ContributionDTypes(dtype);
  const size_t num_sets = rule.is_optimizer ? 1 : choices.size();
  for (size_t set = 0; set < num_sets; ++set) {
    for (int num_contributions : {1, 2, 5}) {
      const size_t number = out->size();
      const size_t choice = rule.is_optimizer ? number % choices.size() : set;
      out->push_back({.rule = &rule,
                      .dtype = dtype,
                      .contribution_dtypes = choices[choice],
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

void Fill(Tensor& tensor, double low, double high, std::mt19937_64& random) {
  for (int64_t i = 0; i < std::min(kRunLength, tensor.num_elements()); ++i) {
    SetRandom(tensor, i, low, high, random);
  }
  const size_t run_bytes = kRunLength * SizeOf(tensor.dtype());
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

// Each of `count` elements one of these, and NaN where that is `position` = 0.
void FillWithSpecials(Tensor& tensor, size_t position) {
  constexpr double kMin = std::numeric_limits<double>::min();
  constexpr double kDoubles[] = {0,        -0.0,      1,      -1.5,
                                 INFINITY, -INFINITY, NAN,    kMin / 4,
                                 -kMin,    1e300,     -1e300, 1e-200};
  constexpr double kFloats[] = {0,        -0.0,      1,     -1.5,
                                INFINITY, -INFINITY, NAN,   0x1p-140,
                                -1e-38,   3e38,      -2e38, 1e-25};
  constexpr int64_t kCount = std::size(kFloats);
  const auto& values = tensor.dtype() == DType::kF64 ? kDoubles : kFloats;
  // The first tensors take turns like digits, the others by other strides.
  constexpr int64_t kStrides[] = {1, kCount, 7, 31, 53, 101, 5};
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    SetFloat(tensor, i, values[i / kStrides[position % 7] % kCount]);
  }
}

void FillWithSpecials(UpdateTensors& tensors) {
  size_t position = 0;
  FillWithSpecials(tensors.stored, position++);
  for (Tensor& each : tensors.contributions) FillWithSpecials(each, position++);
  for (Tensor& each : tensors.states) FillWithSpecials(each, position++);
  FillWithSpecials(tensors.master, 0);
}

// Which NaN a NaN is may differ.
void AppendWithOneNan(Tensor tensor, std::string* bytes) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const size_t size = SizeOf(tensor.dtype());
    if (std::isnan(FloatAt(tensor, i))) {
      bytes->append(size, '\xff');
    } else {
      bytes->append(tensor.data() + i * size, size);
    }
  }
}

absl::Status AllToDevice(Backend& backend, std::vector<Tensor>& tensors) {
  for (Tensor& tensor : tensors) {
    ASSIGN_OR_RETURN(tensor, ToDevice(backend, tensor));
  }
  return absl::OkStatus();
}

void AppendBytes(Tensor tensor, std::string* bytes) {
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
                      in_place ? ", in place" : "",
                      is_special ? ", special values" : "");
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

std::vector<UpdateCase> SpecialCases() {
  std::vector<UpdateCase> cases;
  for (const OracleRule& rule : OracleRules()) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      cases.push_back({.rule = &rule,
                       .dtype = dtype,
                       .contribution_dtypes = {dtype},
                       .num_elements = 1999,
                       .update_count = 1 + cases.size() % 3,
                       .is_special = true});
    }
  }
  return cases;
}

absl::StatusOr<UpdateTensors> MakeTensors(const UpdateCase& update_case) {
  const UpdateCase& c = update_case;
  ASSIGN_OR_RETURN(const UpdateRule rule, UpdateRule::Create(c.rule->spec));
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
    const bool is_signed = c.rule->states[i] == '~';
    const double high = c.update_count == 1 ? 0 : is_signed ? 0.4 : 0.5;
    const double low = is_signed ? -high : high / 2;
    // All of the key is one row.
    const bool is_per_row = rule.states()[i].shape == StateShape::kPerRow;
    ASSIGN_OR_RETURN(Tensor state, Random(AccumulateType(c.dtype),
                                          is_per_row ? 1 : c.num_elements, low,
                                          high, random));
    tensors.states.push_back(std::move(state));
  }
  if (rule.keeps_master(c.dtype)) {
    ASSIGN_OR_RETURN(tensors.master,
                     Random(DType::kF32, c.num_elements, -2, 2, random));
  }
  if (c.is_special) FillWithSpecials(tensors);
  tensors.value = tensors.stored;
  return tensors;
}

absl::StatusOr<DeviceUpdate> DeviceUpdate::Create(
    Backend& backend, const UpdateCase& update_case) {
  DeviceUpdate update;
  ASSIGN_OR_RETURN(update.rule_, UpdateRule::Create(update_case.rule->spec));
  update.update_count_ = update_case.update_count;
  update.is_special_ = update_case.is_special;
  UpdateTensors& tensors = update.tensors_;
  ASSIGN_OR_RETURN(tensors, MakeTensors(update_case));
  RETURN_IF_ERROR(AllToDevice(backend, tensors.contributions));
  RETURN_IF_ERROR(AllToDevice(backend, tensors.states));
  const Tensor host_stored = tensors.stored;
  ASSIGN_OR_RETURN(tensors.stored, ToDevice(backend, host_stored));
  ASSIGN_OR_RETURN(tensors.master, ToDevice(backend, tensors.master));
  tensors.value = tensors.stored;
  if (!update_case.in_place) {
    ASSIGN_OR_RETURN(tensors.value, ToDevice(backend, host_stored));
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
  ASSIGN_OR_RETURN(results.value, ToHost(backend, tensors_.value));
  ASSIGN_OR_RETURN(results.master, ToHost(backend, tensors_.master));
  for (const Tensor& tensor : tensors_.states) {
    ASSIGN_OR_RETURN(Tensor state, ToHost(backend, tensor));
    results.states.push_back(std::move(state));
  }
  return results;
}

absl::StatusOr<std::string> DeviceUpdate::ResultBytes(Backend& backend) const {
  ASSIGN_OR_RETURN(const UpdateTensors results, Results(backend));
  std::string bytes;
  const auto append = is_special_ ? AppendWithOneNan : AppendBytes;
  append(results.value, &bytes);
  for (const Tensor& state : results.states) append(state, &bytes);
  append(results.master, &bytes);
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

}  // namespace tensorkv::testing

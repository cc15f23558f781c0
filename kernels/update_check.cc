#include "kernels/update_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

absl::Status Mismatch(absl::string_view expected, absl::string_view actual) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", expected, ", got ", actual));
}

// Puts the subject before the message of an error.
absl::Status Named(absl::string_view subject, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(subject, ": ", status.message()));
}
absl::Status Named(absl::string_view subject, size_t index,
                   const absl::Status& status) {
  if (status.ok()) return status;
  return Named(absl::StrCat(subject, " ", index), status);
}

absl::Status CheckElements(const TensorView& tensor, int64_t num_elements) {
  if (tensor.num_elements != num_elements) {
    return Mismatch(absl::StrCat(num_elements, " elements"),
                    absl::StrCat(tensor.num_elements));
  }
  if (tensor.data == nullptr && num_elements > 0) {
    return Mismatch("elements", "no memory");
  }
  return absl::OkStatus();
}

absl::Status CheckTensor(const TensorView& tensor, DType dtype,
                         int64_t num_elements) {
  if (tensor.dtype != dtype) {
    return Mismatch(NameOf(dtype), NameOf(tensor.dtype));
  }
  return CheckElements(tensor, num_elements);
}

absl::Status CheckValue(const MutableTensorView& value) {
  if (value.num_elements < 0) {
    return Mismatch("0 or more elements", absl::StrCat(value.num_elements));
  }
  return CheckElements(value, value.num_elements);
}

absl::Status CheckStored(const TensorUpdate& update) {
  if (update.rule->kind() == RuleKind::kAssign) return absl::OkStatus();
  return CheckTensor(update.stored, update.value.dtype,
                     update.value.num_elements);
}

absl::Status CheckPacking(const Packing& packing, uint64_t first,
                          const TensorView& contribution,
                          const TensorUpdate& update) {
  const MutableTensorView& value = update.value;
  if (!IsFloat(value.dtype))
    return Mismatch("unpacked elements", "packed ones");
  const auto num_elements = static_cast<uint64_t>(value.num_elements);
  const bool is_there = first <= packing.num_elements &&
                        num_elements <= packing.num_elements - first;
  if (!is_there || contribution.num_elements != value.num_elements) {
    return Mismatch(absl::StrCat(num_elements, " elements from ", first),
                    absl::StrCat(packing.num_elements));
  }
  return absl::OkStatus();
}

absl::Status CheckContribution(size_t index, const TensorUpdate& update) {
  const TensorView& contribution = update.contributions[index];
  if (const Packing* const packing = update.PackingOf(index)) {
    return CheckPacking(*packing, update.PackedFirstOf(index), contribution,
                        update);
  }
  const MutableTensorView& value = update.value;
  if (!IsFloat(value.dtype)) {
    return CheckTensor(contribution, value.dtype, value.num_elements);
  }
  if (!IsFloat(contribution.dtype)) {
    return Mismatch("a float dtype", NameOf(contribution.dtype));
  }
  return CheckElements(contribution, value.num_elements);
}

absl::Status CheckContributions(const TensorUpdate& update) {
  if (update.contributions.empty()) {
    return Named("contributions", Mismatch("at least one", "none"));
  }
  if (!update.packings.empty() &&
      update.packings.size() != update.contributions.size()) {
    return Named("packings", Mismatch(absl::StrCat(update.contributions.size()),
                                      absl::StrCat(update.packings.size())));
  }
  if (!update.packed_firsts.empty() &&
      update.packed_firsts.size() != update.contributions.size()) {
    return Named("packed_firsts",
                 Mismatch(absl::StrCat(update.contributions.size()),
                          absl::StrCat(update.packed_firsts.size())));
  }
  for (size_t i = 0; i < update.contributions.size(); ++i) {
    RETURN_IF_ERROR(Named("contribution", i, CheckContribution(i, update)));
  }
  return absl::OkStatus();
}

// Checks that all contributions have weights.
absl::Status CheckWeights(const TensorUpdate& update) {
  if (update.weights == nullptr) return absl::OkStatus();
  const ContributionWeights& weights = *update.weights;
  const size_t size = update.contributions.size();
  if (update.num_averaged > 0) {
    return Mismatch("no num_averaged", absl::StrCat(update.num_averaged));
  }
  if (weights.each.size() != size) {
    return Mismatch(absl::StrCat(size), absl::StrCat(weights.each.size()));
  }
  const bool are_positive = std::all_of(
      weights.each.begin(), weights.each.end(),
      [](double weight) { return weight > 0 && std::isfinite(weight); });
  if (!are_positive) return Mismatch("positive ones", "others");
  if (weights.total > 0 && std::isfinite(weights.total)) {
    return absl::OkStatus();
  }
  if (weights.total == 0 && IsFloat(update.value.dtype)) {
    return absl::OkStatus();
  }
  return Mismatch("a total", absl::StrCat(weights.total));
}

// Checks that as many can be left out below the middle as above.
absl::Status CheckAveraged(const TensorUpdate& update) {
  const size_t most = update.contributions.size();
  if (update.num_averaged == 0) return absl::OkStatus();
  if (!IsFloat(update.value.dtype)) {
    return Mismatch("a float dtype", NameOf(update.value.dtype));
  }
  if (update.num_averaged <= most && (most - update.num_averaged) % 2 == 0) {
    return absl::OkStatus();
  }
  return Mismatch(absl::StrCat(most, ", or fewer by an even number"),
                  absl::StrCat(update.num_averaged));
}

// Checks that the rows divide the elements.
absl::Status CheckRows(const TensorUpdate& update) {
  const int64_t num_elements = update.value.num_elements;
  const bool fits = update.num_rows > 0 ? num_elements % update.num_rows == 0
                                        : num_elements == 0;
  if (fits && update.num_rows >= 0) return absl::OkStatus();
  return Mismatch(absl::StrCat("rows of ", num_elements, " elements"),
                  absl::StrCat(update.num_rows, " rows"));
}

absl::Status CheckState(const TensorUpdate& update, const StateSpec& spec,
                        const MutableTensorView& state) {
  int64_t num_elements = update.value.num_elements;
  if (spec.shape != StateShape::kLikeValue) RETURN_IF_ERROR(CheckRows(update));
  if (spec.shape == StateShape::kPerRow) num_elements = update.num_rows;
  if (spec.shape == StateShape::kPerColumn) {
    // Without elements nobody knows how many columns there are, or asks.
    if (num_elements == 0) return absl::OkStatus();
    num_elements /= update.num_rows;
  }
  return CheckTensor(state, StateSpec::DTypeFor(update.value.dtype),
                     num_elements);
}

absl::Status CheckStates(const TensorUpdate& update) {
  const size_t expected = update.rule->num_states();
  if (update.states.size() != expected) {
    return Named("states", Mismatch(absl::StrCat(expected),
                                    absl::StrCat(update.states.size())));
  }
  for (size_t i = 0; i < expected; ++i) {
    RETURN_IF_ERROR(
        Named("state", i,
              CheckState(update, update.rule->states()[i], update.states[i])));
  }
  return absl::OkStatus();
}

absl::Status CheckMaster(const TensorUpdate& update) {
  const MutableTensorView& master = update.master;
  if (update.rule->keeps_master(update.value.dtype)) {
    return CheckTensor(master, DType::kF32, update.value.num_elements);
  }
  const bool has_elements = master.data != nullptr && master.num_elements > 0;
  return has_elements ? Mismatch("none", NameOf(master.dtype))
                      : absl::OkStatus();
}

// Remembers whether the rule that was asked about last takes updates of the
// simplest kind with its dtype: batches have long runs of both.
class SimpleRules {
 public:
  bool Take(const UpdateRule* rule, DType dtype) {
    if (rule == rule_ && dtype == dtype_) return takes_;
    rule_ = rule;
    dtype_ = dtype;
    takes_ = rule != nullptr && rule->num_states() == 0 &&
             !rule->keeps_master(dtype) && rule->CheckTakes(dtype).ok();
    return takes_;
  }

 private:
  const UpdateRule* rule_ = nullptr;
  DType dtype_ = DType::kUnknown;
  bool takes_ = false;
};

// Returns whether the update is of the simplest kind, one contribution and no
// state, and nothing is wrong with it. Batches of 10,000 are of this kind.
bool IsSimpleUpdate(const TensorUpdate& update, SimpleRules& rules) {
  const MutableTensorView& value = update.value;
  if (update.contributions.size() != 1) return false;
  if (!update.packings.empty() || update.has_mean()) return false;
  const TensorView& contribution = update.contributions[0];
  return contribution.dtype == value.dtype &&
         contribution.num_elements == value.num_elements &&
         update.stored.dtype == value.dtype &&
         update.stored.num_elements == value.num_elements &&
         value.num_elements > 0 && value.data != nullptr &&
         contribution.data != nullptr && update.stored.data != nullptr &&
         update.master.data == nullptr && update.states.empty() &&
         update.update_count > 0 && rules.Take(update.rule, value.dtype);
}

absl::Status CheckUpdate(const TensorUpdate& update) {
  if (update.rule == nullptr) return Named("rule", Mismatch("one", "none"));
  if (update.update_count == 0) {
    return Named("update_count", Mismatch("at least 1", "0"));
  }
  RETURN_IF_ERROR(update.rule->CheckTakes(update.value.dtype));
  RETURN_IF_ERROR(Named("value", CheckValue(update.value)));
  RETURN_IF_ERROR(Named("stored", CheckStored(update)));
  RETURN_IF_ERROR(CheckContributions(update));
  RETURN_IF_ERROR(Named("weights", CheckWeights(update)));
  RETURN_IF_ERROR(Named("num_averaged", CheckAveraged(update)));
  RETURN_IF_ERROR(CheckStates(update));
  return Named("master", CheckMaster(update));
}

}  // namespace

absl::Status CheckBatch(absl::Span<const TensorUpdate> batch) {
  SimpleRules rules;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (IsSimpleUpdate(batch[i], rules)) continue;
    RETURN_IF_ERROR(Named("update", i, CheckUpdate(batch[i])));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv

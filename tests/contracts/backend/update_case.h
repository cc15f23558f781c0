// Updates to run on a backend.

#ifndef TENSORKV_TESTS_CONTRACTS_UPDATE_CASE_H_
#define TENSORKV_TESTS_CONTRACTS_UPDATE_CASE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "tensor/tensor.h"
#include "tests/contracts/backend/update_oracle.h"

namespace tensorkv::testing {

// One update, up to its elements, which follow from the rest.
struct UpdateCase {
  const OracleRule* rule;
  DType dtype;
  // The contributions take turns.
  std::vector<DType> contribution_dtypes;
  int num_contributions = 1;
  int64_t num_elements = 0;
  uint64_t update_count = 1;
  bool in_place = true;
  // Whether all tensors hold zeros, subnormals, infinities, NaN and what is
  // near overflow, in all combinations of two and many of more.
  bool is_special = false;

  std::string ToString() const;
};

// Every rule with every dtype, and contributions of every dtype and of all, in
// small tensors: together for rules that are no optimizers, in turns for those.
std::vector<UpdateCase> SmallCases();

// Every rule in tensors that a backend may cut into parts.
std::vector<UpdateCase> LargeCases();

// Every rule on special values. No oracle tells what comes out.
std::vector<UpdateCase> SpecialCases();

// The tensors of an update.
struct UpdateTensors {
  Tensor stored;
  std::vector<Tensor> contributions;
  std::vector<Tensor> states;
  // Of shape [0] where the rule keeps none.
  Tensor master;
  // `stored` where the update is in place.
  Tensor value;
};

// Tensors repeat a run of this many elements, for speed. A prime, so that a
// part of the tensor taken for another shows.
inline constexpr int64_t kRunLength = 251;

// The elements of a case in host memory, the same at every call. The master
// holds more digits than the stored value, as after some updates. The states
// suit their meanings: a variance is not negative, and all are zero at the
// first update.
absl::StatusOr<UpdateTensors> MakeTensors(const UpdateCase& update_case);

// An update whose tensors are on a backend's device. Must outlive the views
// that it gives out; moving it keeps them valid.
class DeviceUpdate {
 public:
  static absl::StatusOr<DeviceUpdate> Create(Backend& backend,
                                             const UpdateCase& update_case);

  TensorUpdate view();

  // What the tensors hold now, all bytes in a row: value, states, master. Of
  // special cases with one NaN for all.
  absl::StatusOr<std::string> ResultBytes(Backend& backend) const;
  absl::StatusOr<UpdateTensors> Results(Backend& backend) const;

 private:
  DeviceUpdate() = default;

  UpdateRule rule_;
  uint64_t update_count_ = 1;
  bool is_special_ = false;
  UpdateTensors tensors_;
  std::vector<TensorView> contribution_views_;
  std::vector<MutableTensorView> state_views_;
};

// Runs each case alone and returns what comes out, by case.
absl::StatusOr<std::vector<std::string>> ResultBytes(
    Backend& backend, const std::vector<UpdateCase>& cases);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_UPDATE_CASE_H_

// Rows of a small table, for the suites about rows.

#ifndef TENSORKV_TESTS_CONTRACTS_RANDOM_ROWS_H_
#define TENSORKV_TESTS_CONTRACTS_RANDOM_ROWS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "contract/requests.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing {
namespace rows_contract {

inline constexpr int kRows = 23;
inline constexpr int kWidth = 5;
inline constexpr char kMomentum[] =
    "sgd(learning_rate=0.1, momentum=0.9, weight_decay=0.01)";

using Ids = std::vector<int64_t>;

inline RefPtr<const RowIds> IdsOf(const Ids& ids, DType dtype = DType::kI64) {
  const std::vector<double> numbers(ids.begin(), ids.end());
  return *RowIds::Create(Vector(numbers, dtype));
}

inline Tensor Table(DType dtype = DType::kF32) {
  std::vector<double> numbers;
  for (int i = 0; i < kRows * kWidth; ++i) numbers.push_back(std::sin(i));
  return TensorOf({kRows, kWidth}, numbers, dtype);
}

// Ids with repeats, sometimes none, sometimes runs; and numbers whose sums
// depend on their order.
class RandomRows {
 public:
  explicit RandomRows(std::mt19937& random) {
    const int size = static_cast<int>(random() % 12);
    const int64_t distance = random() % 3;
    int64_t id = random() % kRows;
    for (int i = 0; i < size; ++i) {
      ids_.push_back(id);
      id = distance == 2 ? random() % kRows : (id + distance) % kRows;
    }
    for (int i = 0; i < size * kWidth; ++i) {
      const int exponent = static_cast<int>(random() % 12);
      numbers_.push_back(
          std::ldexp(static_cast<int32_t>(random()), exponent - 40));
    }
  }

  int size() const { return static_cast<int>(ids_.size()); }
  int64_t id(int i) const { return ids_[i]; }
  std::vector<double> Row(int i) const {
    return {numbers_.begin() + i * kWidth, numbers_.begin() + (i + 1) * kWidth};
  }

  PushEntry Entry(const std::string& key, bool update_all_rows = false) const {
    return {.key = key,
            .tensor = TensorOf({size(), kWidth}, numbers_),
            .rows = IdsOf(ids_, size() % 2 == 0 ? DType::kI32 : DType::kI64),
            .update_all_rows = update_all_rows};
  }

  // Each row once, with the sum of what is brought for it; as rows, and as a
  // tensor that has zeros elsewhere.
  PushEntry Summed(const std::string& key) const {
    Ids ids;
    std::vector<double> numbers;
    for (const auto& [id, row] : Sums()) {
      ids.push_back(id);
      numbers.insert(numbers.end(), row.begin(), row.end());
    }
    const auto size = static_cast<int64_t>(ids.size());
    return {.key = key,
            .tensor = TensorOf({size, kWidth}, numbers),
            .rows = IdsOf(ids)};
  }
  PushEntry SummedTensor(const std::string& key) const {
    std::vector<double> numbers(kRows * kWidth);
    for (const auto& [id, row] : Sums()) {
      std::copy(row.begin(), row.end(), numbers.begin() + id * kWidth);
    }
    return {.key = key, .tensor = TensorOf({kRows, kWidth}, numbers)};
  }

  // As tensors of zeros with one row each that is not, in the order of the ids.
  std::vector<PushEntry> Dense(const std::string& key) const {
    std::vector<PushEntry> entries = {
        {.key = key, .tensor = Full({kRows, kWidth}, 0)}};
    for (int i = 0; i < size(); ++i) {
      std::vector<double> numbers(kRows * kWidth);
      std::copy_n(numbers_.begin() + i * kWidth, kWidth,
                  numbers.begin() + ids_[i] * kWidth);
      entries.push_back(
          {.key = key, .tensor = TensorOf({kRows, kWidth}, numbers)});
    }
    return entries;
  }

 private:
  // In f32, in the order of the ids.
  std::map<int64_t, std::vector<float>> Sums() const {
    std::map<int64_t, std::vector<float>> sums;
    for (int i = 0; i < size(); ++i) {
      const std::vector<double> row = Row(i);
      const auto [sum, is_new] =
          sums.try_emplace(id(i), row.begin(), row.end());
      for (int j = 0; j < kWidth && !is_new; ++j) {
        sum->second[j] += static_cast<float>(row[j]);
      }
    }
    return sums;
  }

  Ids ids_;
  std::vector<double> numbers_;
};

}  // namespace rows_contract
}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_RANDOM_ROWS_H_

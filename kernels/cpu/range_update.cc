#include "kernels/cpu/range_update.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/rule_ops.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace tensorkv {
namespace {

constexpr FloatFormat FormatOf(DType dtype) {
  return static_cast<FloatFormat>(static_cast<int>(dtype) -
                                  static_cast<int>(DType::kF32));
}
static_assert(FormatOf(DType::kF32) == FloatFormat::kF32);
static_assert(FormatOf(DType::kF64) == FloatFormat::kF64);
static_assert(FormatOf(DType::kF16) == FloatFormat::kF16);
static_assert(FormatOf(DType::kBF16) == FloatFormat::kBF16);
static_assert(FormatOf(DType::kF8E4M3FN) == FloatFormat::kF8E4M3FN);
static_assert(FormatOf(DType::kF8E5M2) == FloatFormat::kF8E5M2);

// Returns where element `index` of a tensor lies.
const char* At(const TensorView& tensor, int64_t index) {
  return static_cast<const char*>(tensor.data) + index * SizeOf(tensor.dtype);
}
char* At(const MutableTensorView& tensor, int64_t index) {
  return static_cast<char*>(tensor.data) + index * SizeOf(tensor.dtype);
}

// Returns whether the elements lie where their type wants them.
bool IsAligned(const TensorView& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) % SizeOf(tensor.dtype) == 0;
}
constexpr size_t kMaxElementBytes = 8;

// How many elements of contributions a mean is taken of at a time, half of a
// second-level cache in f64, and to how many elements of the value at least,
// where there are so many contributions that these do not fit.
constexpr size_t kMaxAveraged = 32 * 1024;
constexpr size_t kMinAveragedElements = 16;

// How many columns a key may have for a part of it to keep what elements get of
// them: a quarter of the part's elements, so that each serves four at least.
constexpr int64_t kMaxKeptColumns = ops::kSumPartElements / 4;

// Copies twice as much each time, which the library does in vectors.
template <typename T>
void Fill(T value, T* out, size_t count) {
  size_t filled = std::min<size_t>(count, 8);
  std::fill_n(out, filled, value);
  while (filled < count) {
    const size_t size = std::min(filled, count - filled);
    std::memcpy(out + filled, out, size * sizeof(T));
    filled += size;
  }
}

// Updates ranges of one update. T is the accumulate type of its dtype.
template <typename T>
class RangeUpdater {
 public:
  RangeUpdater(const ElementKernels<T>& kernels, const TensorUpdate& update)
      : kernels_(kernels),
        update_(update),
        native_(AccumulateType(update.value.dtype)),
        has_master_(update.rule->keeps_master(update.value.dtype)) {}

  void Run(int64_t begin, int64_t end, const double* sums) {
    if (IsDecoding()) return Decode(begin, end);
    VisitOp(sums, SumsOfRule(kind()).num_phases, [&](const auto& op) {
      for (int64_t at = begin; at < end; at += kBlockElements) {
        RunBlock(op, at, std::min(kBlockElements, end - at));
      }
    });
  }

  void Sum(int phase, const double* sums, int64_t begin, int64_t end,
           double* out) {
    VisitOp(sums, phase, [&](const auto& op) {
      SumParts(op, phase, SumsOfRule(kind()).num_sums, begin, end, out);
    });
  }

  // `columns`: null, or what the terms of all columns are added to.
  void UpdateRows(int64_t begin, int64_t end, double* columns) {
    VisitOp(nullptr, 0, [&](const auto& op) {
      using Op = std::remove_cvref_t<decltype(op)>;
      if constexpr (ops::kHasRowState<Op>) {
        const int64_t size = RowElements();
        T* const state = static_cast<T*>(update_.states[Op::kRowState].data);
        if (size < ops::kSumLanes) {
          return UpdateNarrowRows(op, begin, end, state, columns);
        }
        for (int64_t row = begin; row < end; ++row) {
          const double sum = SumOfRow(op, row * size, size, columns);
          state[row] = op.UpdateRow(sum, size, state[row]);
        }
      }
    });
  }

  void SumColumns(const Rectangle& part, double* sums) {
    VisitOp(nullptr, 0, [&](const auto& op) {
      if constexpr (ops::kHasColumnState<std::remove_cvref_t<decltype(op)>>) {
        const int64_t size = RowElements();
        const int64_t count = part.end_column - part.first_column;
        std::fill_n(sums, count, 0.0);
        for (int64_t row = part.first_row; row < part.end_row; ++row) {
          AddRowTo(op, row * size + part.first_column, count, sums);
        }
      }
    });
  }

  void UpdateColumns(int64_t begin, int64_t end, const double* sums,
                     int64_t num_parts) {
    VisitOp(nullptr, 0, [&](const auto& op) {
      using Op = std::remove_cvref_t<decltype(op)>;
      if constexpr (ops::kHasColumnState<Op>) {
        T* const state = static_cast<T*>(update_.states[Op::kColumnState].data);
        for (int64_t column = begin; column < end; ++column) {
          double sum = 0;
          for (int64_t i = 0; i < num_parts; ++i) {
            sum += sums[i * (end - begin) + column - begin];
          }
          state[column] = op.UpdateColumn(sum, update_.num_rows, state[column]);
        }
      }
    });
  }

 private:
  RuleKind kind() const { return update_.rule->kind(); }

  // Returns whether the update is what assign does with one contribution of
  // another format, where the value is in the one that it is decoded to.
  bool IsDecoding() const {
    return kind() == RuleKind::kAssign && update_.contributions.size() == 1 &&
           !update_.has_mean() && update_.value.dtype == native_ &&
           !has_master_;
  }

  void Decode(int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kBlockElements) {
      LoadContribution(0, at, std::min(kBlockElements, end - at),
                       reinterpret_cast<T*>(At(update_.value, at)));
    }
  }

  int64_t RowElements() const {
    return update_.value.num_elements / update_.num_rows;
  }

  // Calls `visit` with the functor after it has taken the sums of its first
  // phases.
  template <typename Visitor>
  void VisitOp(const double* sums, int num_phases, Visitor visit) {
    VisitRuleOp<T>(update_, [&](const auto& created) {
      if constexpr (ops::SumsOf<std::remove_cvref_t<decltype(created)>>()
                        .num_phases > 0) {
        auto op = created;
        ops::SetSums(sums, num_phases, op);
        visit(op);
      } else {
        visit(created);
      }
    });
  }

  template <typename Op>
  void RunBlock(const Op& op, int64_t at, size_t count) {
    StepArrays<T> arrays = ArraysOf(at, count);
    SpreadStates(op, at, count, arrays);
    arrays.new_w = NewValue(at);
    kernels_.steps[static_cast<int>(kind())](&op, arrays, count);
    const MutableTensorView& value = update_.value;
    if (value.dtype == native_) return;
    FormatKernelsOf(value.dtype).store(arrays.new_w, At(value, at), count);
  }

  // Sums over one part.
  void SumParts(const auto& op, int phase, int num_sums, int64_t begin,
                int64_t end, double* out) {
    double lanes[ops::kMaxSums * ops::kSumLanes] = {};
    for (int64_t at = begin; at < end; at += kBlockElements) {
      AddTerms(op, phase, at, std::min(kBlockElements, end - at), lanes);
    }
    for (int k = 0; k < num_sums; ++k) {
      out[k] = ops::SumOfLanes(lanes + k * ops::kSumLanes);
    }
  }

  double SumOfRow(const auto& op, int64_t begin, int64_t size,
                  double* columns) {
    double lanes[ops::kSumLanes] = {};
    for (int64_t at = 0; at < size; at += kBlockElements) {
      const int64_t count = std::min(kBlockElements, size - at);
      AddTerms(op, ops::kRowPhase, begin + at, count, lanes,
               columns == nullptr ? nullptr : columns + at);
    }
    return ops::SumOfLanes(lanes);
  }

  // Updates rows shorter than the lanes: as many at a time as these take.
  void UpdateNarrowRows(const auto& op, int64_t begin, int64_t end, T* state,
                        double* columns) {
    const int64_t size = RowElements();
    const int64_t most = ops::kSumLanes / size;
    for (int64_t row = begin; row < end; row += most) {
      const int64_t count = std::min(most, end - row);
      double terms[ops::kSumLanes] = {};
      AddTerms(op, ops::kRowPhase, row * size, count * size, terms);
      for (int64_t i = 0; i < count; ++i) {
        double* const of_row = terms + i * size;
        if (columns != nullptr) {
          for (int64_t k = 0; k < size; ++k) columns[k] += of_row[k];
        }
        const double sum = ops::SumOfFirstLanes(of_row, size);
        state[row + i] = op.UpdateRow(sum, size, state[row + i]);
      }
    }
  }

  // Adds a row's terms to the sums of its columns, each a lane.
  void AddRowTo(const auto& op, int64_t at, int64_t count, double* sums) {
    for (int64_t i = 0; i < count; i += ops::kSumLanes) {
      AddTerms(op, ops::kRowPhase, at + i,
               std::min<int64_t>(ops::kSumLanes, count - i), sums + i);
    }
  }

  template <typename Op>
  void AddTerms(const Op& op, int phase, int64_t at, size_t count,
                double* lanes, double* columns = nullptr) {
    StepArrays<T> arrays = ArraysOf(at, count);
    if (phase != ops::kRowPhase) SpreadStates(op, at, count, arrays);
    kernels_.sums[static_cast<int>(kind())](&op, phase, arrays, count, lanes,
                                            columns);
  }

  // Returns what the functor reads.
  StepArrays<T> ArraysOf(int64_t at, size_t count) {
    StepArrays<T> arrays = {.first = update_.first_element + at};
    arrays.g = SumOfContributions(at, count);
    arrays.w = CurrentValue(arrays.g, at, count);
    for (size_t i = 0; i < update_.states.size(); ++i) {
      arrays.states[i] = reinterpret_cast<T*>(At(update_.states[i], at));
    }
    return arrays;
  }

  // Puts blocks that have an element of its row, or column, for each element in
  // the places of such states.
  template <typename Op>
  void SpreadStates(const Op& op, int64_t at, size_t count,
                    StepArrays<T>& arrays) {
    if constexpr (ops::kHasRowState<Op>) {
      const int64_t size = RowElements();
      const T* const rows =
          static_cast<const T*>(update_.states[Op::kRowState].data);
      int64_t row = at / size;
      int64_t end_of_row = (row + 1) * size - at;
      for (size_t i = 0; i < count; ++row, end_of_row += size) {
        const size_t end = std::min<size_t>(count, end_of_row);
        Fill(ops::OfRow(op, rows[row]), rows_ + i, end - i);
        i = end;
      }
      arrays.states[Op::kRowState] = rows_;
    }
    if constexpr (ops::kHasColumnState<Op>) {
      arrays.states[Op::kColumnState] = OfColumns(op, at, count);
    }
  }

  // Returns what the elements of a block get of their columns. It is computed
  // once per column where there are few enough.
  template <typename Op>
  T* OfColumns(const Op& op, int64_t at, size_t count) {
    const int64_t size = RowElements();
    const T* const state =
        static_cast<const T*>(update_.states[Op::kColumnState].data);
    const int64_t column = at % size;
    const bool is_one_run = column + static_cast<int64_t>(count) <= size;
    if (size > kMaxKeptColumns) {
      // A row is longer than a block, so that a block is of two rows at most.
      const size_t run = std::min<size_t>(count, size - column);
      ComputeColumns(op, state + column, run, columns_);
      ComputeColumns(op, state, count - run, columns_ + run);
      return columns_;
    }
    if (!has_columns_) ComputeColumns(op, state, size, columns_);
    has_columns_ = true;
    if (is_one_run) return columns_ + column;
    T* const spread = columns_ + kMaxKeptColumns;
    for (size_t i = 0, from = column; i < count; from = 0) {
      const size_t run = std::min<size_t>(count - i, size - from);
      std::copy_n(columns_ + from, run, spread + i);
      i += run;
    }
    return spread;
  }

  template <typename Op>
  static void ComputeColumns(const Op& op, const T* state, size_t count,
                             T* out) {
    for (size_t i = 0; i < count; ++i) out[i] = ops::OfColumn(op, state[i]);
  }

  // Returns the sum, or the mean where the update asks for it.
  const T* SumOfContributions(int64_t at, size_t count) {
    if (update_.weights != nullptr) return WeightedMean(at, count);
    if (update_.num_averaged > 0) return MeanOfMiddle(at, count);
    const TensorView& first = update_.contributions[0];
    const size_t num_contributions = update_.contributions.size();
    const bool is_packed = update_.PackingOf(0) != nullptr;
    if (num_contributions == 1 && first.dtype == native_ && !is_packed) {
      return static_cast<const T*>(Aligned(first, at, count));
    }
    LoadContribution(0, at, count, sum_);
    for (size_t next = 1; next < num_contributions;) {
      next = AddGroup(next, at, count);
    }
    return sum_;
  }

  // All contributions to as many elements as fit lie one after the other.
  const T* MeanOfMiddle(int64_t at, size_t count) {
    if constexpr (std::is_floating_point_v<T>) {
      const size_t num_contributions = update_.contributions.size();
      const size_t most =
          std::max(kMaxAveraged / num_contributions, kMinAveragedElements);
      averaged_.resize(std::min(most, count) * num_contributions);
      for (size_t i = 0; i < count; i += most) {
        const size_t size = std::min(most, count - i);
        for (size_t k = 0; k < num_contributions; ++k) {
          LoadContribution(k, at + i, size, averaged_.data() + k * size);
        }
        kernels_.average(averaged_.data(), num_contributions,
                         update_.num_averaged, sum_ + i, size);
      }
    }
    return sum_;
  }

  // Each contribution is read once; one that needs no conversion, where it is.
  const T* WeightedMean(int64_t at, size_t count) {
    const ContributionWeights& weights = *update_.weights;
    const bool is_unsigned = IsUnsigned(update_.value.dtype);
    ops::Wide<T>* const sum = WideSum(count);
    std::fill_n(sum, count, ops::kNoSum<ops::Wide<T>>);
    for (size_t k = 0; k < weights.each.size(); ++k) {
      kernels_.add_weighted(BlockOf(k, at, count), weights.each[k], is_unsigned,
                            sum, count);
    }
    if (weights.total > 0) {
      kernels_.divide(sum, weights.total, is_unsigned, sum_, count);
    }
    return sum_;
  }

  ops::Wide<T>* WideSum(size_t count) {
    if constexpr (std::is_floating_point_v<T>) {
      return sum_;
    } else {
      wide_.resize(count);
      return wide_.data();
    }
  }

  // Returns a block of a contribution in the accumulate type. The present value
  // is not loaded yet, so its block is free.
  const T* BlockOf(size_t contribution, int64_t at, size_t count) {
    const TensorView& unpacked = update_.contributions[contribution];
    if (unpacked.dtype == native_ &&
        update_.PackingOf(contribution) == nullptr) {
      return static_cast<const T*>(Aligned(unpacked, at, count));
    }
    LoadContribution(contribution, at, count, value_);
    return value_;
  }

  void LoadContribution(size_t contribution, int64_t at, size_t count, T* out) {
    if (update_.PackingOf(contribution) != nullptr) {
      return Unpack(contribution, at, count, out);
    }
    const TensorView& unpacked = update_.contributions[contribution];
    FormatKernelsOf(unpacked.dtype)
        .load(Aligned(unpacked, at, count), out, count);
  }

  // Returns a block of an unpacked contribution, copied if that lies at an odd
  // address.
  const void* Aligned(const TensorView& unpacked, int64_t at, size_t count) {
    const char* const block = At(unpacked, at);
    if (IsAligned(unpacked)) return block;
    std::memcpy(aligned_, block, count * SizeOf(unpacked.dtype));
    return aligned_;
  }

  // Decodes a block of a packed contribution.
  void Unpack(size_t contribution, int64_t at, size_t count, T* out) {
    if constexpr (std::is_floating_point_v<T>) {
      kernels_.unpack(*update_.PackingOf(contribution),
                      update_.contributions[contribution].data,
                      update_.PackedFirstOf(contribution) + at, count, out);
    }
  }

  // Adds a packed contribution. The present value is not loaded yet, so its
  // block is free.
  void AddPacked(size_t contribution, int64_t at, size_t count) {
    Unpack(contribution, at, count, value_);
    const void* const block = value_;
    FormatKernelsOf(native_).add(&block, 1, sum_, count);
  }

  // Adds contributions from `first` on that share a dtype, as many as one pass
  // takes. Returns the one after them.
  size_t AddGroup(size_t first, int64_t at, size_t count) {
    if (update_.PackingOf(first) != nullptr) {
      AddPacked(first, at, count);
      return first + 1;
    }
    const absl::Span<const TensorView> group =
        update_.contributions.subspan(first, kMaxAddends);
    const DType dtype = group.front().dtype;
    const void* arrays[kMaxAddends] = {Aligned(group.front(), at, count)};
    size_t size = 1;
    for (const TensorView& contribution : group.subspan(1)) {
      if (contribution.dtype != dtype || !IsAligned(contribution)) break;
      if (update_.PackingOf(first + size) != nullptr) break;
      arrays[size++] = At(contribution, at);
    }
    FormatKernelsOf(dtype).add(arrays, size, sum_, count);
    return first + size;
  }

  const T* CurrentValue(const T* g, int64_t at, size_t count) {
    // Not looked at, and there may be no stored value: any array will do.
    if (update_.rule->kind() == RuleKind::kAssign) return g;
    const TensorView& current = has_master_ ? update_.master : update_.stored;
    if (current.dtype == native_) {
      return reinterpret_cast<const T*>(At(current, at));
    }
    FormatKernelsOf(current.dtype).load(At(current, at), value_, count);
    return value_;
  }

  T* NewValue(int64_t at) {
    if (has_master_) return reinterpret_cast<T*>(At(update_.master, at));
    if (update_.value.dtype != native_) return value_;
    return reinterpret_cast<T*>(At(update_.value, at));
  }

  const FormatKernels<T>& FormatKernelsOf(DType dtype) const {
    if constexpr (std::is_floating_point_v<T>) {
      return kernels_.formats[static_cast<int>(FormatOf(dtype))];
    } else {
      return kernels_.formats[0];
    }
  }

  const ElementKernels<T>& kernels_;
  const TensorUpdate& update_;
  const DType native_;
  const bool has_master_;
  alignas(kBufferAlignment) T sum_[kBlockElements];
  alignas(kBufferAlignment) T value_[kBlockElements];
  alignas(kBufferAlignment) T rows_[kBlockElements];
  // What elements get of their columns: first of all columns, and behind these
  // of a block; or of a block alone.
  alignas(kBufferAlignment) T columns_[kMaxKeptColumns + kBlockElements];
  bool has_columns_ = false;
  alignas(kBufferAlignment) char aligned_[kBlockElements * kMaxElementBytes];
  // Contributions of which the middle is averaged.
  std::vector<T> averaged_;
  // The weighted sum, where T is no float.
  std::vector<double> wide_;
};

// Returns whether the update is what assign does with one contribution in the
// value's dtype.
bool IsCopy(const TensorUpdate& update) {
  return update.rule->kind() == RuleKind::kAssign &&
         update.contributions.size() == 1 && update.PackingOf(0) == nullptr &&
         update.contributions[0].dtype == update.value.dtype &&
         update.weights == nullptr;
}

void Copy(const TensorUpdate& update, int64_t begin, int64_t end) {
  if (begin == end) return;  // there may be no memory
  std::memcpy(At(update.value, begin), At(update.contributions[0], begin),
              (end - begin) * SizeOf(update.value.dtype));
}

// Calls `visit` with what updates ranges of an update, by its accumulate type.
template <typename Visitor>
void VisitUpdater(const KernelTable& kernels, const TensorUpdate& update,
                  Visitor visit) {
  const auto with = [&](const auto& of_type) {
    visit(RangeUpdater(of_type, update));
  };
  switch (WrappingType(AccumulateType(update.value.dtype))) {
    case DType::kF64:
      return with(kernels.f64);
    case DType::kI8:
      return with(kernels.i8);
    case DType::kU8:
      return with(kernels.u8);
    case DType::kI16:
      return with(kernels.i16);
    case DType::kI32:
      return with(kernels.i32);
    case DType::kI64:
      return with(kernels.i64);
    case DType::kBool:
      return with(kernels.boolean);
    default:
      return with(kernels.f32);
  }
}

// Only floats have rules with sums.
template <typename Visitor>
void VisitFloatUpdater(const KernelTable& kernels, const TensorUpdate& update,
                       Visitor visit) {
  if (update.value.dtype == DType::kF64) {
    visit(RangeUpdater(kernels.f64, update));
  } else {
    visit(RangeUpdater(kernels.f32, update));
  }
}

}  // namespace

void UpdateRange(const KernelTable& kernels, const TensorUpdate& update,
                 int64_t begin, int64_t end, const double* sums) {
  if (IsCopy(update)) return Copy(update, begin, end);
  VisitUpdater(kernels, update,
               [=](auto&& updater) { updater.Run(begin, end, sums); });
}

void SumRange(const KernelTable& kernels, const TensorUpdate& update, int phase,
              const double* sums, int64_t begin, int64_t end, double* out) {
  VisitFloatUpdater(kernels, update, [=](auto&& updater) {
    updater.Sum(phase, sums, begin, end, out);
  });
}

void UpdateRows(const KernelTable& kernels, const TensorUpdate& update,
                int64_t begin, int64_t end, double* columns) {
  VisitFloatUpdater(kernels, update, [=](auto&& updater) {
    updater.UpdateRows(begin, end, columns);
  });
}

void SumColumns(const KernelTable& kernels, const TensorUpdate& update,
                const Rectangle& part, double* out) {
  VisitFloatUpdater(kernels, update,
                    [&](auto&& updater) { updater.SumColumns(part, out); });
}

void UpdateColumns(const KernelTable& kernels, const TensorUpdate& update,
                   int64_t begin, int64_t end, const double* sums,
                   int64_t num_parts) {
  VisitFloatUpdater(kernels, update, [=](auto&& updater) {
    updater.UpdateColumns(begin, end, sums, num_parts);
  });
}

}  // namespace tensorkv

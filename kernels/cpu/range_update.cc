#include "kernels/cpu/range_update.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

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

// Where element `index` of a tensor lies.
const char* At(const TensorView& tensor, int64_t index) {
  return static_cast<const char*>(tensor.data) + index * SizeOf(tensor.dtype);
}
char* At(const MutableTensorView& tensor, int64_t index) {
  return static_cast<char*>(tensor.data) + index * SizeOf(tensor.dtype);
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

  void Run(int64_t begin, int64_t end) {
    VisitRuleOp<T>(update_, [&](const auto& op) {
      for (int64_t at = begin; at < end; at += kBlockElements) {
        RunBlock(&op, at, std::min(kBlockElements, end - at));
      }
    });
  }

 private:
  void RunBlock(const void* op, int64_t at, size_t count) {
    const T* const g = SumOfContributions(at, count);
    const T* const w = CurrentValue(g, at, count);
    T* const new_w = NewValue(at);
    StepArrays<T> arrays = {
        .new_w = new_w, .w = w, .g = g, .first = update_.first_element + at};
    for (size_t i = 0; i < update_.states.size(); ++i) {
      arrays.states[i] = reinterpret_cast<T*>(At(update_.states[i], at));
    }
    kernels_.steps[static_cast<int>(update_.rule->kind())](op, arrays, count);
    const MutableTensorView& value = update_.value;
    if (value.dtype == native_) return;
    FormatKernelsOf(value.dtype).store(new_w, At(value, at), count);
  }

  const T* SumOfContributions(int64_t at, size_t count) {
    const TensorView& first = update_.contributions[0];
    const bool is_packed = update_.PackingOf(0) != nullptr;
    if (is_packed) {
      Unpack(0, at, count, sum_);
    } else if (update_.contributions.size() == 1 && first.dtype == native_) {
      return reinterpret_cast<const T*>(At(first, at));
    } else {
      FormatKernelsOf(first.dtype).load(At(first, at), sum_, count);
    }
    const size_t num_contributions = update_.contributions.size();
    for (size_t next = 1; next < num_contributions;) {
      next = AddGroup(next, at, count);
    }
    return sum_;
  }

  // Decodes a block of a packed contribution.
  void Unpack(size_t contribution, int64_t at, size_t count, T* out) {
    if constexpr (std::is_floating_point_v<T>) {
      kernels_.unpack(*update_.PackingOf(contribution),
                      update_.contributions[contribution].data,
                      update_.first_element + at, count, out);
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
    const void* arrays[kMaxAddends];
    size_t size = 0;
    for (const TensorView& contribution : group) {
      if (contribution.dtype != dtype) break;
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
};

// What assign does with one contribution in the value's dtype.
bool IsCopy(const TensorUpdate& update) {
  return update.rule->kind() == RuleKind::kAssign &&
         update.contributions.size() == 1 && update.PackingOf(0) == nullptr &&
         update.contributions[0].dtype == update.value.dtype;
}

void Copy(const TensorUpdate& update, int64_t begin, int64_t end) {
  if (begin == end) return;  // there may be no memory
  std::memcpy(At(update.value, begin), At(update.contributions[0], begin),
              (end - begin) * SizeOf(update.value.dtype));
}

template <typename T>
void Update(const ElementKernels<T>& kernels, const TensorUpdate& update,
            int64_t begin, int64_t end) {
  RangeUpdater<T>(kernels, update).Run(begin, end);
}

}  // namespace

void UpdateRange(const KernelTable& kernels, const TensorUpdate& update,
                 int64_t begin, int64_t end) {
  if (IsCopy(update)) return Copy(update, begin, end);
  switch (WrappingType(AccumulateType(update.value.dtype))) {
    case DType::kF64:
      return Update(kernels.f64, update, begin, end);
    case DType::kI8:
      return Update(kernels.i8, update, begin, end);
    case DType::kU8:
      return Update(kernels.u8, update, begin, end);
    case DType::kI16:
      return Update(kernels.i16, update, begin, end);
    case DType::kI32:
      return Update(kernels.i32, update, begin, end);
    case DType::kI64:
      return Update(kernels.i64, update, begin, end);
    case DType::kBool:
      return Update(kernels.boolean, update, begin, end);
    default:
      return Update(kernels.f32, update, begin, end);
  }
}

}  // namespace tensorkv

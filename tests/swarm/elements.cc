#include "tests/swarm/elements.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "contract/encoding.h"

namespace tensorkv::swarm {
namespace {

template <typename T>
Tensor Make(Shape shape, const std::vector<T>& elements, DType dtype) {
  return *Tensor::CopyOf(dtype, std::move(shape), elements.data());
}

Tensor MakeOf(Shape shape, const std::vector<double>& elements, DType dtype) {
  if (dtype == DType::kI32) {
    return Make<int32_t>(shape, {elements.begin(), elements.end()}, dtype);
  }
  return Make<float>(shape, {elements.begin(), elements.end()}, dtype);
}

}  // namespace

Tensor TensorOf(const Elements& elements, DType dtype) {
  return MakeOf(*Shape::Create({kNumRows, kRowSize}),
                {elements.begin(), elements.end()}, dtype);
}

double Converted(DType dtype, double element) {
  if (dtype != DType::kBF16) return element;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(element));
  // To nearest, of two that are as near to the even one.
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  return std::bit_cast<float>(rounded);
}

double ElementOf(const Tensor& tensor, int i) {
  if (tensor.dtype() == DType::kBF16) {
    uint16_t bits = 0;
    std::memcpy(&bits, tensor.data() + i * sizeof(bits), sizeof(bits));
    return std::bit_cast<float>(uint32_t{bits} << 16);
  }
  const char* const from = tensor.data() + i * sizeof(float);
  float element = 0;
  int32_t integer = 0;
  std::memcpy(&element, from, sizeof(element));
  std::memcpy(&integer, from, sizeof(integer));
  return tensor.dtype() == DType::kI32 ? integer : element;
}

Elements ElementsOf(const Tensor& tensor) {
  Elements elements = {};
  for (int i = 0; i < kNumElements; ++i) elements[i] = ElementOf(tensor, i);
  return elements;
}

Tensor CopyOf(const Tensor& tensor) {
  return *Tensor::CopyOf(tensor.dtype(), tensor.shape(), tensor.data());
}

std::vector<KeySnapshot> CopiesOf(std::vector<KeySnapshot> keys) {
  for (KeySnapshot& key : keys) {
    key.value = CopyOf(key.value);
    for (StateSnapshot& state : key.states) {
      state.tensor = CopyOf(state.tensor);
    }
  }
  return keys;
}

RefPtr<const RowIds> ChooseRows(Random& random) {
  std::vector<int32_t> ids;
  const int size = random.Between(1, 4);
  for (int i = 0; i < size; ++i) ids.push_back(random.Below(kNumRows));
  return *RowIds::Create(Make(*Shape::Create({size}), ids, DType::kI32));
}

void AddRows(Random& random, const std::string& key, DType dtype, int unit,
             PushRequest& request, Contribution& contribution) {
  PushEntry entry = {.key = key, .rows = ChooseRows(random)};
  std::vector<double> elements;
  contribution.rows = 0;
  for (int64_t i = 0; i < entry.rows->size(); ++i) {
    const int64_t row = (*entry.rows)[i];
    contribution.rows |= 1 << row;
    for (int column = 0; column < kRowSize; ++column) {
      elements.push_back(unit * random.Between(-3, 3));
      contribution.elements[row * kRowSize + column] += elements.back();
    }
  }
  entry.tensor =
      MakeOf(*Shape::Create({entry.rows->size(), kRowSize}), elements, dtype);
  request.entries.push_back(std::move(entry));
}

void AddEncoded(Random& random, const std::string& key, int unit,
                PushRequest& request, Contribution& contribution) {
  const Packing packing = {.kind = PackingKind::kTwoBit,
                           .scale = static_cast<float>(unit)};
  PushEntry entry = {.key = key};
  entry.encoding = *Encoding::Create(packing, DType::kF32,
                                     *Shape::Create({kNumRows, kRowSize}));
  std::vector<uint8_t> payload(entry.encoding->payload_bytes());
  for (int i = 0; i < kNumElements; ++i) {
    constexpr uint8_t kCodes[] = {0b00, 0b10, 0b11};
    constexpr int kValues[] = {0, -1, 1};
    const uint32_t choice = random.Below(3);
    payload[i / 4] |= kCodes[choice] << (6 - 2 * (i % 4));
    contribution.elements[i] += unit * kValues[choice];
  }
  const auto size = static_cast<int64_t>(payload.size());
  entry.tensor = Make(*Shape::Create({size}), payload, DType::kU8);
  request.entries.push_back(std::move(entry));
}

}  // namespace tensorkv::swarm

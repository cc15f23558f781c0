#include "client/compression/compressor.h"

#include <bit>
#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tensor/float_formats.h"

namespace tensorkv {
namespace {

// Calls `visit` with a function that gives element i as f32; f64 is rounded.
template <typename Visitor>
void VisitElements(const Tensor& tensor, Visitor visit) {
  const auto* const halves = reinterpret_cast<const uint16_t*>(tensor.data());
  const auto* const bytes = reinterpret_cast<const uint8_t*>(tensor.data());
  const auto* const singles = reinterpret_cast<const float*>(tensor.data());
  const auto* const doubles = reinterpret_cast<const double*>(tensor.data());
  switch (tensor.dtype()) {
    case DType::kF64:
      return visit([=](size_t i) { return static_cast<float>(doubles[i]); });
    case DType::kF16:
      return visit([=](size_t i) { return F16ToF32(halves[i]); });
    case DType::kBF16:
      return visit([=](size_t i) { return BF16ToF32(halves[i]); });
    case DType::kF8E4M3FN:
      return visit([=](size_t i) { return F8E4M3ToF32(bytes[i]); });
    case DType::kF8E5M2:
      return visit([=](size_t i) { return F8E5M2ToF32(bytes[i]); });
    default:
      return visit([=](size_t i) { return singles[i]; });
  }
}

bool AreFinite(const Tensor& tensor) {
  constexpr uint32_t kExponent = 0x7f800000;
  const auto size = static_cast<size_t>(tensor.num_elements());
  bool are_finite = true;
  VisitElements(tensor, [&](auto at) {
    for (size_t i = 0; i < size; ++i) {
      are_finite &= (std::bit_cast<uint32_t>(at(i)) & kExponent) != kExponent;
    }
  });
  return are_finite;
}

// Zeros where there is something of another size.
void Resize(std::vector<float>& elements, size_t size) {
  if (elements.size() != size) elements.assign(size, 0.0f);
}

}  // namespace

// What is kept of a key.
struct Compressor::Key {
  // What was encoded for a step, entry by entry.
  struct Encoded {
    Step step = 0;
    std::vector<EncodedTensor> tensors;
  };

  // The tensor for entry `index` of that step, if it is there.
  const EncodedTensor* Find(Step at, size_t index) const {
    for (const Encoded& each : encoded) {
      if (each.step == at) {
        return index < each.tensors.size() ? &each.tensors[index] : nullptr;
      }
    }
    return nullptr;
  }

  void Remember(Step at, const EncodedTensor& tensor) {
    if (at == 0) return;
    if (encoded.empty() || encoded.back().step != at) {
      encoded.push_back({at, {}});
      if (encoded.size() > kStepsRemembered) encoded.pop_front();
    }
    encoded.back().tensors.push_back(tensor);
  }

  Mutex mutex;
  std::vector<float> residual;
  std::vector<float> moment;
  std::deque<Encoded> encoded;
  // Of contributions that were encoded: what is random differs from one to the
  // next.
  uint64_t num_encoded = 0;
  uint64_t seed = 0;
};

Compressor::Compressor(CompressionOptions options, Observer observer)
    : options_(std::move(options)), observer_(std::move(observer)) {}

Compressor::~Compressor() = default;

absl::StatusOr<std::vector<PushEntry>> Compressor::Compress(
    Step step, std::vector<PushEntry> entries) {
  absl::flat_hash_map<absl::string_view, size_t> num_before;  // of each key
  for (PushEntry& entry : entries) {
    const Compression* const compression = Find(entry);
    if (compression == nullptr) continue;
    const size_t index = num_before[entry.key]++;
    Key& key = KeyOf(entry.key);
    MutexLock lock(&key.mutex);
    const int64_t bytes_before = entry.tensor.size_bytes();
    EncodedTensor encoded;
    if (const EncodedTensor* repeat =
            step > 0 ? key.Find(step, index) : nullptr) {
      encoded = *repeat;
    } else {
      absl::StatusOr<EncodedTensor> made =
          EncodeNew(*compression, entry.tensor, key);
      if (!made.ok()) {
        return absl::Status(
            made.status().code(),
            absl::StrCat("key \"", entry.key, "\": ", made.status().message()));
      }
      encoded = *std::move(made);
      key.Remember(step, encoded);
    }
    entry.tensor = std::move(encoded.tensor);
    entry.encoding = std::move(encoded.encoding);
    if (observer_) {
      observer_(compression->kind, bytes_before, entry.tensor.size_bytes());
    }
  }
  return entries;
}

const Compression* Compressor::Find(const PushEntry& entry) const {
  if (entry.skip || entry.encoding || !IsFloat(entry.tensor.dtype()) ||
      entry.tensor.size_bytes() < static_cast<int64_t>(options_.min_bytes)) {
    return nullptr;
  }
  for (const CompressionRule& rule : options_.rules) {
    if (!MatchesPattern(rule.key_pattern, entry.key)) continue;
    const bool encodes = rule.compression.kind != Compression::Kind::kNone;
    return encodes ? &rule.compression : nullptr;
  }
  return nullptr;
}

Compressor::Key& Compressor::KeyOf(const std::string& name) {
  MutexLock lock(&mutex_);
  std::unique_ptr<Key>& key = keys_[name];
  if (key == nullptr) {
    key = std::make_unique<Key>();
    // Another one for every key; the same in every run.
    for (const char byte : name) {
      key->seed = (key->seed ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
    }
  }
  return *key;
}

absl::StatusOr<EncodedTensor> Compressor::EncodeNew(
    const Compression& compression, const Tensor& tensor, Key& key) {
  if (!AreFinite(tensor)) {
    return absl::InvalidArgumentError(
        "compression: expected finite elements, got NaN or infinity");
  }
  const auto size = static_cast<size_t>(tensor.num_elements());
  Resize(key.residual, size);
  if (!compression.feedback) absl::c_fill(key.residual, 0.0f);
  float* const residual = key.residual.data();
  if (compression.momentum > 0) {
    Resize(key.moment, size);
    float* const moment = key.moment.data();
    VisitElements(tensor, [&, factor = compression.momentum](auto at) {
      for (size_t i = 0; i < size; ++i) {
        moment[i] = factor * moment[i] + at(i);
        residual[i] += factor * moment[i] + at(i);
      }
    });
  } else {
    VisitElements(tensor, [&](auto at) {
      for (size_t i = 0; i < size; ++i) residual[i] += at(i);
    });
  }
  return Encode(compression, tensor.shape(), key.seed + key.num_encoded++,
                absl::MakeSpan(key.residual));
}

bool MatchesPattern(absl::string_view pattern, absl::string_view text) {
  if (pattern.empty()) return true;
  size_t p = 0;
  size_t t = 0;
  // The last star, and where the text that it stands for ends.
  size_t star = absl::string_view::npos;
  size_t star_end = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      t = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == absl::string_view::npos;
}

}  // namespace tensorkv

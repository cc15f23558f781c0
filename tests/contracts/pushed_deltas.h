// Pushes of what has changed, for the tests of such.

#ifndef TENSORKV_TESTS_CONTRACTS_PUSHED_DELTAS_H_
#define TENSORKV_TESTS_CONTRACTS_PUSHED_DELTAS_H_

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "contract/reason.h"
#include "gtest/gtest.h"
#include "tensor/delta/delta_encoder.h"
#include "tests/contracts/caller.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv::testing::pushed_deltas_contract {

inline constexpr int64_t kNumElements = 5000;

// Has 1 everywhere but at `position`, where it has `element`.
inline Tensor Changed(int64_t position, float element) {
  Tensor tensor = Full({kNumElements}, 1);
  tensor.mutable_elements<float>()[position] = element;
  return tensor;
}

inline Tensor TensorOfBytes(const std::string& bytes) {
  return Tensor::CopyOf(DType::kU8, {static_cast<int64_t>(bytes.size())},
                        bytes.data())
      .value();
}

// Returns the delta's bytes, be they fewer than those of the whole or not.
inline std::string DeltaOf(const Tensor& from, const Tensor& to) {
  DeltaEncoder encoder(from.view(), to.view(), DeltaEncodings::All());
  DeltaScratch scratch;
  for (size_t i = 0; i < encoder.num_blocks(); ++i) {
    encoder.EncodeBlock(i, scratch);
  }
  std::string delta(encoder.size_bytes(), '\0');
  encoder.Write(delta.data());
  return delta;
}

inline PushEntry EntryOf(const std::string& key, const std::string& base,
                         const std::string& bytes, uint64_t digest) {
  auto delta = MakeRefCounted<PushedDelta>();
  delta->base = base;
  delta->digest = digest;
  PushEntry entry = {.key = key, .tensor = TensorOfBytes(bytes)};
  entry.delta = std::move(delta);
  return entry;
}

inline PushEntry EntryOf(const std::string& key, const std::string& base,
                         const Tensor& from, const Tensor& to) {
  return EntryOf(key, base, DeltaOf(from, to), DigestOf(to.view()));
}

inline absl::StatusOr<PushReply> Push(const Caller& store,
                                      std::vector<PushEntry> entries) {
  return store.Call(
      PushRequest{.entries = std::move(entries), .with_tokens = true});
}

// Pushes the whole and returns its token.
inline std::string PushWhole(const Caller& store, const std::string& key,
                             const Tensor& tensor) {
  const absl::StatusOr<PushReply> reply =
      Push(store, {{.key = key, .tensor = tensor}});
  EXPECT_OK(reply.status());
  return reply.ok() ? reply->results.front().token : "";
}

// Creates the key with zeros, pushes `tensor`, and returns its token.
inline std::string Begin(const Caller& store, const std::string& key,
                         const Tensor& tensor) {
  Tensor zeros = Tensor::Filled(tensor.dtype(), tensor.shape(), '\0').value();
  EXPECT_OK(store.Init(key, std::move(zeros)));
  return PushWhole(store, key, tensor);
}

// A tensor of random bytes, so that floats are anything.
inline Tensor RandomTensor(DType dtype, const Shape& shape,
                           std::mt19937_64& random) {
  Tensor tensor = Tensor::Filled(dtype, shape, '\0').value();
  for (int64_t i = 0; i < tensor.size_bytes(); ++i) {
    tensor.mutable_data()[i] =
        static_cast<char>(dtype == DType::kBool ? random() % 2 : random());
  }
  return tensor;
}

// Has one byte in `one_in` be another.
inline Tensor Altered(const Tensor& tensor, uint64_t one_in,
                      std::mt19937_64& random) {
  Tensor altered =
      Tensor::CopyOf(tensor.dtype(), tensor.shape(), tensor.data()).value();
  for (int64_t i = 0; i < tensor.size_bytes(); ++i) {
    if (random() % one_in != 0) continue;
    altered.mutable_data()[i] = static_cast<char>(
        tensor.dtype() == DType::kBool ? random() % 2 : random());
  }
  return altered;
}

inline auto IsMalformed() {
  return HasReason(Reason::kDeltaMalformed, {{"key", "w"}});
}
inline auto HasChanged(const std::string& key = "w") {
  return HasReason(Reason::kBaseChanged, {{"key", key}});
}

#define SKIP_WITHOUT_DELTAS() \
  if (!has_deltas()) GTEST_SKIP() << "the elements are on a device"

}  // namespace tensorkv::testing::pushed_deltas_contract

#endif  // TENSORKV_TESTS_CONTRACTS_PUSHED_DELTAS_H_

// The fixture of the suite in backend_contract.h.

#ifndef TENSORKV_TESTS_CONTRACTS_BACKEND_BACKEND_CONTRACT_FIXTURE_H_
#define TENSORKV_TESTS_CONTRACTS_BACKEND_BACKEND_CONTRACT_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "tests/contracts/backend/exact_elements.h"
#include "tests/testing/device_tensors.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

// A backend. A fixture that cannot make one everywhere says in WhySkipped why
// it cannot here.
template <typename Fixture>
class BackendContractTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if constexpr (requires { Fixture::WhySkipped(); }) {
      const std::string reason = Fixture::WhySkipped();
      if (!reason.empty()) GTEST_SKIP() << reason;
    }
    ASSERT_OK_AND_ASSIGN(backend_, Fixture::Create());
  }

  // An f32 vector of the device.
  Tensor Vector(const std::vector<double>& elements) {
    const Shape shape = {static_cast<int64_t>(elements.size())};
    Tensor tensor = *Tensor::Allocate(DType::kF32, shape);
    for (size_t i = 0; i < elements.size(); ++i) {
      SetFloat(tensor, i, elements[i]);
    }
    return *ToDevice(*backend_, tensor);
  }

  std::vector<double> ElementsOf(const Tensor& device) {
    const Tensor host = *ToHost(*backend_, device);
    std::vector<double> elements;
    for (int64_t i = 0; i < host.num_elements(); ++i) {
      elements.push_back(FloatAt(host, i));
    }
    return elements;
  }

  std::unique_ptr<Backend> backend_;
};

class CountingAccount final : public MemoryAccount {
 public:
  explicit CountingAccount(int64_t* released) : released_(released) {}
  void Release(int64_t bytes) override { *released_ += bytes; }

 private:
  int64_t* const released_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_BACKEND_BACKEND_CONTRACT_FIXTURE_H_

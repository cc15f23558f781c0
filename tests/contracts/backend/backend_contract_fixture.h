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

// A backend, and one good update of it that tests spoil. A fixture that cannot
// make a backend everywhere says in WhySkipped why it cannot here.
template <typename Fixture>
class BackendContractTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if constexpr (requires { Fixture::WhySkipped(); }) {
      const std::string reason = Fixture::WhySkipped();
      if (!reason.empty()) GTEST_SKIP() << reason;
    }
    ASSERT_OK_AND_ASSIGN(backend_, Fixture::Create());
    ASSERT_OK_AND_ASSIGN(sgd_,
                         UpdateRule::Create({"sgd", {{"momentum", 0.5}}}));
    stored_ = Vector({1, 2, 3});
    gradient_ = Vector({4, 5, 6});
    momentum_ = Vector({0, 0, 0});
    contributions_ = {gradient_.view()};
    states_ = {momentum_.mutable_view()};
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

  // SGD with momentum on f32[3], in place; tests spoil it.
  TensorUpdate GoodUpdate() {
    return {.rule = &sgd_,
            .stored = stored_.view(),
            .contributions = contributions_,
            .states = absl::MakeSpan(states_),
            .value = stored_.mutable_view()};
  }

  // Applies the spoilt update behind a copy and a good one: none may have an
  // effect.
  void ExpectInvalid(const TensorUpdate& update, const std::string& message) {
    Tensor target = Vector({8});
    const Tensor source = Vector({7});
    const std::vector<TensorView> contributions = {source.view()};
    const UpdateRule assign;
    const TensorUpdate good = {.rule = &assign,
                               .contributions = contributions,
                               .value = target.mutable_view()};

    const std::vector<TensorUpdate> batch = {good, update};
    const float nine = 9;
    EXPECT_THAT(
        backend_->Run({.uploads = {{reinterpret_cast<const char*>(&nine),
                                    target.mutable_data(), sizeof(nine)}},
                       .updates = batch}),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 ::testing::HasSubstr("update 1: " + message)));
    EXPECT_THAT(ElementsOf(target), ::testing::ElementsAre(8));
    EXPECT_THAT(ElementsOf(stored_), ::testing::ElementsAre(1, 2, 3));
  }

  std::unique_ptr<Backend> backend_;
  UpdateRule sgd_;
  Tensor stored_;
  Tensor gradient_;
  Tensor momentum_;
  std::vector<TensorView> contributions_;
  std::vector<MutableTensorView> states_;
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

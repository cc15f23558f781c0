// What every Backend must do. A backend's test is a fixture and one line:
//
//   struct CpuFixture {
//     static absl::StatusOr<std::unique_ptr<Backend>> Create();
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Cpu, BackendContractTest, CpuFixture);

#ifndef TENSORKV_TESTS_CONTRACTS_BACKEND_BACKEND_CONTRACT_H_
#define TENSORKV_TESTS_CONTRACTS_BACKEND_BACKEND_CONTRACT_H_

#include <cmath>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "tests/contracts/backend/averaged_updates.h"
#include "tests/contracts/backend/backend_contract_fixture.h"
#include "tests/contracts/backend/invalid_updates.h"
#include "tests/contracts/backend/odd_tensors.h"
#include "tests/contracts/backend/oracle_comparison.h"
#include "tests/contracts/backend/packed_updates.h"
#include "tests/contracts/backend/rule_properties.h"
#include "tests/contracts/backend/rule_steps.h"
#include "tests/contracts/backend/update_case.h"
#include "tests/contracts/backend/weighted_updates.h"
#include "tests/testing/device_tensors.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

TYPED_TEST_SUITE_P(BackendContractTest);

TYPED_TEST_P(BackendContractTest, SmallUpdatesAgreeWithTheOracle) {
  for (const UpdateCase& update_case : SmallCases()) {
    ASSERT_TRUE(AgreesWithOracle(*this->backend_, update_case));
  }
}

TYPED_TEST_P(BackendContractTest, LargeUpdatesAgreeWithTheOracle) {
  for (const UpdateCase& update_case : LargeCases()) {
    ASSERT_TRUE(AgreesWithOracle(*this->backend_, update_case));
  }
}

TYPED_TEST_P(BackendContractTest, TwentyUpdatesByEveryRuleStayNearTheOracle) {
  ASSERT_OK_AND_ASSIGN(const std::vector<RuleError> errors,
                       ErrorsOfTwentyUpdates(*this->backend_));

  std::cout << TableOf(errors);
  for (const RuleError& error : errors) {
    EXPECT_LE(error.relative_error, error.bound) << TableOf({error});
  }
}

TYPED_TEST_P(BackendContractTest, LearningRateOfZeroFreezesByEveryRule) {
  EXPECT_OK(CheckRateOfZeroFreezes(*this->backend_));
}

TYPED_TEST_P(BackendContractTest, FiniteElementsStayFiniteByEveryRule) {
  EXPECT_OK(CheckFiniteStaysFinite(*this->backend_));
}

TYPED_TEST_P(BackendContractTest, RowsAreKeysOfTheirOwnByEveryRule) {
  EXPECT_OK(CheckRowsAreKeysOfTheirOwn(*this->backend_));
}

TYPED_TEST_P(BackendContractTest, BatchGivesTheBitsOfItsUpdatesAlone) {
  std::vector<UpdateCase> cases = SmallCases();
  const std::vector<UpdateCase> large = LargeCases();
  cases.insert(cases.begin() + cases.size() / 2, large.begin(), large.end());
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> alone,
                       ResultBytes(*this->backend_, cases));

  std::vector<DeviceUpdate> updates;
  std::vector<TensorUpdate> batch;
  for (const UpdateCase& update_case : cases) {
    ASSERT_OK_AND_ASSIGN(DeviceUpdate update,
                         DeviceUpdate::Create(*this->backend_, update_case));
    updates.push_back(std::move(update));
  }
  for (DeviceUpdate& update : updates) batch.push_back(update.view());
  ASSERT_OK(this->backend_->Apply(batch));

  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_THAT(updates[i].ResultBytes(*this->backend_), IsOkAndHolds(alone[i]))
        << cases[i].ToString();
  }
}

TYPED_TEST_P(BackendContractTest, AssignConvertsToTheDTypeOfTheValue) {
  const UpdateRule assign;
  ASSERT_OK_AND_ASSIGN(const Tensor host,
                       Tensor::Allocate(DType::kF8E5M2, {3}));
  ASSERT_OK_AND_ASSIGN(Tensor value, ToDevice(*this->backend_, host));
  const Tensor wide = this->Vector({1.2, -1e9, 0x1p-17});
  const std::vector<TensorView> contributions = {wide.view()};

  ASSERT_OK(this->backend_->Apply({{.rule = &assign,
                                    .contributions = contributions,
                                    .value = value.mutable_view()}}));

  EXPECT_THAT(this->ElementsOf(value),
              ::testing::ElementsAre(1.25, -INFINITY, 0));
}

// Wherever tensors begin, and whatever is left of the last access.
TYPED_TEST_P(BackendContractTest, MisalignedTensorsAndTailsAreSummedAlone) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t shift : {0, 1, 3, 7}) {
      for (const int64_t size : {1, 7, 8, 9, 31, 33, 1025}) {
        EXPECT_OK(CheckShiftedSum(*this->backend_, dtype, shift, size));
      }
    }
  }
}

TYPED_TEST_P(BackendContractTest, PackedContributionsAreWhatTheyDecodeTo) {
  EXPECT_OK(CheckPackedUpdates(*this->backend_));
}

TYPED_TEST_P(BackendContractTest, MeansOfTheMiddleAreExact) {
  EXPECT_OK(CheckAveragedUpdates(*this->backend_));
}

TYPED_TEST_P(BackendContractTest, WeightedMeansAreExact) {
  EXPECT_OK(CheckWeightedUpdates(*this->backend_));
}

TYPED_TEST_P(BackendContractTest, ManySmallCopiesKeepTheirBytes) {
  EXPECT_OK(CheckSmallCopies(*this->backend_));
}

TYPED_TEST_P(BackendContractTest, NanPassesThroughClipping) {
  ASSERT_OK_AND_ASSIGN(
      const UpdateRule sgd,
      UpdateRule::Create(
          {"sgd", {{"clip_gradient", 1}, {"learning_rate", 1}}}));
  const Tensor gradient = this->Vector({NAN, INFINITY, -INFINITY});
  const TensorView contribution = gradient.view();
  Tensor stored = this->Vector({1, 2, 3});

  ASSERT_OK(this->backend_->Apply({{.rule = &sgd,
                                    .stored = stored.view(),
                                    .contributions = {&contribution, 1},
                                    .value = stored.mutable_view()}}));

  EXPECT_THAT(this->ElementsOf(stored),
              ::testing::ElementsAre(::testing::IsNan(), 1, 4));
}

TYPED_TEST_P(BackendContractTest, EmptyBatchIsDone) {
  EXPECT_OK(this->backend_->Apply({}));
}

TYPED_TEST_P(BackendContractTest, ZeroClearsEveryByte) {
  Tensor one = this->Vector({1, 2, 3});
  Tensor other = this->Vector({4, 5});

  ASSERT_OK(this->backend_->Zero(
      {one.mutable_view(), MutableTensorView(), other.mutable_view()}));

  EXPECT_THAT(this->ElementsOf(one), ::testing::Each(0));
  EXPECT_THAT(this->ElementsOf(other), ::testing::Each(0));
}

TYPED_TEST_P(BackendContractTest, MemoryIsAlignedAndGivenBackToItsAccount) {
  int64_t released = 0;

  ASSERT_OK_AND_ASSIGN(RefPtr<Buffer> buffer,
                       this->backend_->Allocate(
                           100, MakeRefCounted<CountingAccount>(&released)));

  EXPECT_EQ(buffer->size_bytes(), 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kBufferAlignment, 0);
  EXPECT_EQ(released, 0);
  buffer = nullptr;
  EXPECT_EQ(released, 100);
}

TYPED_TEST_P(BackendContractTest, ImpossibleAllocationIsResourceExhausted) {
  EXPECT_THAT(this->backend_->Allocate(size_t{1} << 60, nullptr),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TYPED_TEST_P(BackendContractTest, InvalidUpdatesAreRefusedWithAllBefore) {
  ExpectInvalidUpdatesAreRefused(*this->backend_);
}

TYPED_TEST_P(BackendContractTest, EveryNarrowNumberIsAssignedExactly) {
  EXPECT_OK(CheckEveryPattern(*this->backend_));
}

REGISTER_TYPED_TEST_SUITE_P(
    BackendContractTest, SmallUpdatesAgreeWithTheOracle,
    LargeUpdatesAgreeWithTheOracle, TwentyUpdatesByEveryRuleStayNearTheOracle,
    LearningRateOfZeroFreezesByEveryRule, FiniteElementsStayFiniteByEveryRule,
    RowsAreKeysOfTheirOwnByEveryRule, BatchGivesTheBitsOfItsUpdatesAlone,
    AssignConvertsToTheDTypeOfTheValue, MisalignedTensorsAndTailsAreSummedAlone,
    PackedContributionsAreWhatTheyDecodeTo, MeansOfTheMiddleAreExact,
    WeightedMeansAreExact, ManySmallCopiesKeepTheirBytes,
    NanPassesThroughClipping, EmptyBatchIsDone, ZeroClearsEveryByte,
    MemoryIsAlignedAndGivenBackToItsAccount,
    ImpossibleAllocationIsResourceExhausted,
    InvalidUpdatesAreRefusedWithAllBefore, EveryNarrowNumberIsAssignedExactly);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_BACKEND_BACKEND_CONTRACT_H_

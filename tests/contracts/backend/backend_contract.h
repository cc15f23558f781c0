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
#include "tests/contracts/backend/odd_tensors.h"
#include "tests/contracts/backend/oracle_comparison.h"
#include "tests/contracts/backend/packed_updates.h"
#include "tests/contracts/backend/rule_properties.h"
#include "tests/contracts/backend/rule_steps.h"
#include "tests/contracts/backend/update_case.h"
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

// Also of a NaN, whose bits a conversion there and back might change.
TYPED_TEST_P(BackendContractTest, AssignOfOneInTheSameDTypeKeepsItsBits) {
  const UpdateRule assign;
  const std::vector<uint16_t> bits = {0x7c01, 0xfe42, 0x0001, 0x3c00};
  ASSERT_OK_AND_ASSIGN(const Tensor host,
                       Tensor::CopyOf(DType::kF16, {4}, bits.data()));
  ASSERT_OK_AND_ASSIGN(const Tensor source, ToDevice(*this->backend_, host));
  ASSERT_OK_AND_ASSIGN(const Tensor empty, Tensor::Filled(DType::kF16, {4}, 0));
  ASSERT_OK_AND_ASSIGN(Tensor value, ToDevice(*this->backend_, empty));
  const std::vector<TensorView> contributions = {source.view()};

  ASSERT_OK(this->backend_->Apply({{.rule = &assign,
                                    .contributions = contributions,
                                    .value = value.mutable_view()}}));

  ASSERT_OK_AND_ASSIGN(const Tensor result, ToHost(*this->backend_, value));
  EXPECT_THAT(result.template elements<uint16_t>(),
              ::testing::ElementsAreArray(bits));
}

TYPED_TEST_P(BackendContractTest, EveryBitPatternIsKeptByAssign) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3FN,
                            DType::kF8E5M2, DType::kI16, DType::kU8}) {
    const Tensor patterns = EveryPattern(dtype);

    ASSERT_OK_AND_ASSIGN(const Tensor assigned,
                         Assigned(*this->backend_, patterns, dtype));

    EXPECT_EQ(absl::string_view(assigned.data(), assigned.size_bytes()),
              absl::string_view(patterns.data(), patterns.size_bytes()))
        << NameOf(dtype);
  }
}

TYPED_TEST_P(BackendContractTest, EveryNarrowFloatIsWidenedExactly) {
  for (const DType dtype :
       {DType::kF16, DType::kBF16, DType::kF8E4M3FN, DType::kF8E5M2}) {
    const Tensor patterns = EveryPattern(dtype);

    ASSERT_OK_AND_ASSIGN(const Tensor wide,
                         Assigned(*this->backend_, patterns, DType::kF32));

    for (int64_t i = 0; i < patterns.num_elements(); ++i) {
      const double expected = FloatAt(patterns, i);
      EXPECT_THAT(FloatAt(wide, i), ::testing::NanSensitiveDoubleEq(expected))
          << NameOf(dtype) << " " << i;
      // -0 equals 0.
      if (std::isnan(expected)) continue;
      EXPECT_EQ(std::signbit(FloatAt(wide, i)), std::signbit(expected))
          << NameOf(dtype) << " " << i;
    }
  }
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

TYPED_TEST_P(BackendContractTest, MeansOfWhatIsNotTheMiddleAreInvalid) {
  TensorUpdate update = this->GoodUpdate();
  update.num_averaged = 2;
  this->ExpectInvalid(update, "num_averaged: expected 1, or fewer");

  const std::vector<TensorView> two = {this->gradient_.view(),
                                       this->gradient_.view()};
  update.contributions = two;
  update.num_averaged = 1;
  this->ExpectInvalid(update, "num_averaged: expected 2, or fewer");

  const UpdateRule assign;
  std::vector<int32_t> value(3);
  const TensorView integers = {DType::kI32, 3, value.data()};
  this->ExpectInvalid({.rule = &assign,
                       .contributions = {&integers, 1},
                       .num_averaged = 1,
                       .value = {DType::kI32, 3, value.data()}},
                      "num_averaged: expected a float dtype, got i32");
}

TYPED_TEST_P(BackendContractTest, PackedContributionsOfAnotherSizeAreInvalid) {
  const Packing packing = {
      .kind = PackingKind::kTwoBit, .scale = 1, .num_elements = 4};
  const Packing* const packings[] = {&packing};
  TensorUpdate update = this->GoodUpdate();
  update.packings = packings;
  update.first_element = 2;
  this->ExpectInvalid(update,
                      "contribution 0: expected 3 elements from 2, got 4");
}

TYPED_TEST_P(BackendContractTest, ManySmallCopiesKeepTheirBytes) {
  EXPECT_OK(CheckSmallCopies(*this->backend_));
}

TYPED_TEST_P(BackendContractTest, NanPassesThroughClipping) {
  ASSERT_OK_AND_ASSIGN(this->sgd_, this->sgd_.With({{"clip_gradient", 1},
                                                    {"learning_rate", 1}}));
  const Tensor gradient = this->Vector({NAN, INFINITY, -INFINITY});
  this->contributions_ = {gradient.view()};

  ASSERT_OK(this->backend_->Apply({this->GoodUpdate()}));

  EXPECT_THAT(this->ElementsOf(this->stored_),
              ::testing::ElementsAre(::testing::IsNan(), 1, 4));
}

TYPED_TEST_P(BackendContractTest, EmptyBatchIsDone) {
  EXPECT_OK(this->backend_->Apply({}));
}

TYPED_TEST_P(BackendContractTest, ZeroClearsEveryByte) {
  ASSERT_OK(
      this->backend_->Zero({this->stored_.mutable_view(), MutableTensorView(),
                            this->gradient_.mutable_view()}));

  EXPECT_THAT(this->ElementsOf(this->stored_), ::testing::ElementsAre(0, 0, 0));
  EXPECT_THAT(this->ElementsOf(this->gradient_),
              ::testing::ElementsAre(0, 0, 0));
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

TYPED_TEST_P(BackendContractTest, MissingPartsAreInvalid) {
  TensorUpdate update = this->GoodUpdate();
  update.contributions = {};
  this->ExpectInvalid(update, "contributions: expected at least one, got none");

  update = this->GoodUpdate();
  update.rule = nullptr;
  this->ExpectInvalid(update, "rule: expected one, got none");

  update = this->GoodUpdate();
  update.update_count = 0;
  this->ExpectInvalid(update, "update_count: expected at least 1, got 0");

  update = this->GoodUpdate();
  update.stored.data = nullptr;
  this->ExpectInvalid(update, "stored: expected elements, got no memory");
}

TYPED_TEST_P(BackendContractTest, WrongElementCountsAreInvalid) {
  this->contributions_.push_back(this->gradient_.view());
  this->contributions_[1].num_elements = 2;
  this->ExpectInvalid(this->GoodUpdate(),
                      "contribution 1: expected 3 elements, got 2");
  this->contributions_.pop_back();

  this->states_[0].num_elements = 4;
  this->ExpectInvalid(this->GoodUpdate(),
                      "state 0: expected 3 elements, got 4");
  this->states_[0].num_elements = 3;

  TensorUpdate update = this->GoodUpdate();
  update.stored.num_elements = 1;
  this->ExpectInvalid(update, "stored: expected 3 elements, got 1");
}

TYPED_TEST_P(BackendContractTest, WrongDTypesAreInvalid) {
  this->contributions_[0].dtype = DType::kI32;
  this->ExpectInvalid(this->GoodUpdate(),
                      "contribution 0: expected a float dtype, got i32");
  this->contributions_[0].dtype = DType::kF32;

  this->states_[0].dtype = DType::kF64;
  this->ExpectInvalid(this->GoodUpdate(), "state 0: expected f32, got f64");
  this->states_[0].dtype = DType::kF32;

  TensorUpdate update = this->GoodUpdate();
  update.stored.dtype = DType::kI32;
  this->ExpectInvalid(update, "stored: expected f32, got i32");

  update.value.dtype = DType::kI32;
  this->ExpectInvalid(update, "sgd: expected a key of a float dtype, got i32");
}

TYPED_TEST_P(BackendContractTest, ContributionsToIntegersMustBeTheSame) {
  const UpdateRule assign;
  TensorUpdate update = this->GoodUpdate();
  update.rule = &assign;
  update.states = {};
  update.value.dtype = DType::kI32;

  this->ExpectInvalid(update, "contribution 0: expected i32, got f32");
}

TYPED_TEST_P(BackendContractTest, WrongStatesAndMasterAreInvalid) {
  TensorUpdate update = this->GoodUpdate();
  update.states = {};
  this->ExpectInvalid(update, "states: expected 1, got 0");

  update = this->GoodUpdate();
  update.master = this->momentum_.mutable_view();
  this->ExpectInvalid(update, "master: expected none, got f32");

  update = this->GoodUpdate();
  update.stored.dtype = DType::kBF16;
  update.value.dtype = DType::kBF16;
  this->ExpectInvalid(update, "master: expected 3 elements, got 0");
}

REGISTER_TYPED_TEST_SUITE_P(
    BackendContractTest, SmallUpdatesAgreeWithTheOracle,
    LargeUpdatesAgreeWithTheOracle, TwentyUpdatesByEveryRuleStayNearTheOracle,
    LearningRateOfZeroFreezesByEveryRule, FiniteElementsStayFiniteByEveryRule,
    RowsAreKeysOfTheirOwnByEveryRule,
    BatchGivesTheBitsOfItsUpdatesAlone, AssignConvertsToTheDTypeOfTheValue,
    AssignOfOneInTheSameDTypeKeepsItsBits, EveryBitPatternIsKeptByAssign,
    EveryNarrowFloatIsWidenedExactly, MisalignedTensorsAndTailsAreSummedAlone,
    PackedContributionsAreWhatTheyDecodeTo, MeansOfTheMiddleAreExact,
    MeansOfWhatIsNotTheMiddleAreInvalid,
    PackedContributionsOfAnotherSizeAreInvalid, ManySmallCopiesKeepTheirBytes,
    NanPassesThroughClipping, EmptyBatchIsDone, ZeroClearsEveryByte,
    MemoryIsAlignedAndGivenBackToItsAccount,
    ImpossibleAllocationIsResourceExhausted, MissingPartsAreInvalid,
    WrongElementCountsAreInvalid, WrongDTypesAreInvalid,
    ContributionsToIntegersMustBeTheSame, WrongStatesAndMasterAreInvalid);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_BACKEND_BACKEND_CONTRACT_H_
